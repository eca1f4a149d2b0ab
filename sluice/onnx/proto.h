// Model files as protobuf: reading with limits, tensors in and out of TensorProto. Only the sources
// of this module include it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <onnx/onnx_pb.h>

#include "sluice/tensor/host_tensor.h"

namespace sluice::onnx {

namespace pb = ::onnx;

/// The bytes of a file; throws FileError if it cannot be read or is larger than the limit.
std::string readFile(const std::filesystem::path& path, std::size_t limit);
/// Throws FileError if the bytes are no model.
std::unique_ptr<pb::ModelProto> parseModel(std::span<const std::byte> bytes);

/// Throws InvalidArgument if the data does not fit the type, Unsupported for types we have not,
/// FileError for external data outside `folder`, missing or too short.
HostTensor toHostTensor(const pb::TensorProto& proto, const std::filesystem::path& folder);
pb::TensorProto toTensorProto(const HostTensor& tensor, const std::string& name);

}  // namespace sluice::onnx
