// Model files as protobuf: reads them with limits, and converts tensors to and from TensorProto.
// Only the sources of this module include it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <onnx/onnx_pb.h>

#include "sluice/ir/number_text.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::onnx {

namespace pb = ::onnx;

/// The bytes of a file. Throws FileError if it cannot be read or is larger than the limit.
std::string readModelFile(const std::filesystem::path& path, std::size_t limit);
/// Throws FileError if the bytes are not a model.
std::unique_ptr<pb::ModelProto> parseModel(std::span<const std::byte> bytes);

/// Throws InvalidArgument if the data does not fit the type, Unsupported for types that Sluice does
/// not have, and FileError for external data that is outside `folder`, missing or too short.
HostTensor toHostTensor(const pb::TensorProto& proto, const std::filesystem::path& folder);
pb::TensorProto toTensorProto(const HostTensor& tensor, const std::string& name);

using ir::decimalDouble;  // attributes are meant as decimal numbers

/// The doc string of an initializer that is not a trained weight: a buffer, or a frozen weight.
inline constexpr std::string_view kBufferMark = "sluice:buffer";
inline constexpr std::string_view kFrozenMark = "sluice:frozen";

}  // namespace sluice::onnx
