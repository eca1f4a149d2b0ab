// Model files as protobuf: reads them with limits, and converts tensors to and from TensorProto.
// Only the sources of this module include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <onnx/onnx_pb.h>

#include "sluice/ir/number_text.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::onnx {

namespace pb = ::onnx;

/// The bytes of a file. Throws FileError if it cannot be read or is larger than the limit.
std::string readModelFile(const std::filesystem::path& path, std::size_t limit);
/// Throws FileError if the bytes are not a model.
std::unique_ptr<pb::ModelProto> parseModel(std::span<const std::byte> bytes);

/// The files of external data of one model. Tensors of the same bytes of a file share their memory,
/// and all others together have at most the size of the file.
class ExternalFiles {
 public:
  /// Files lie in `folder`; an empty one has none.
  explicit ExternalFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Throws FileError for data that is outside the folder, missing or too short.
  HostTensor read(const pb::TensorProto& proto, const TensorType& type);

 private:
  using Place = std::tuple<std::filesystem::path, std::uint64_t, DType, std::int64_t>;

  std::filesystem::path folder_;
  std::map<Place, HostTensor> tensors_;  // by file, offset, type and number of elements
  std::map<std::filesystem::path, std::uint64_t> taken_;  // bytes of files
};

/// Throws InvalidArgument if the data does not fit the type, Unsupported for types that Sluice does
/// not have, and FileError for wrong external data.
HostTensor toHostTensor(const pb::TensorProto& proto, ExternalFiles& external);
pb::TensorProto toTensorProto(const HostTensor& tensor, const std::string& name);

using ir::decimalDouble;  // attributes are meant as decimal numbers

/// The doc string of an initializer that is not a trained weight: a buffer, or a frozen weight.
inline constexpr std::string_view kBufferMark = "sluice:buffer";
inline constexpr std::string_view kFrozenMark = "sluice:frozen";

}  // namespace sluice::onnx
