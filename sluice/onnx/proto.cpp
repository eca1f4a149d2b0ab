#include "sluice/onnx/proto.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "sluice/base/error.h"
#include "sluice/base/input_file.h"
#include "sluice/onnx/node.h"
#include "sluice/tensor/bool_bytes.h"

namespace sluice::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "raw data is little-endian");

struct ExternalData {
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
};

std::uint64_t parseCount(const std::string& key, const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    raise<InvalidArgument>("external data: {} must be a number, got '{}'", key, text);
  }
  return value;
}

ExternalData externalData(const pb::TensorProto& proto) {
  ExternalData data;
  for (const pb::StringStringEntryProto& entry : proto.external_data()) {
    if (entry.key() == "location") {
      data.location = entry.value();
    } else if (entry.key() == "offset") {
      data.offset = parseCount("offset", entry.value());
    } else if (entry.key() == "length") {
      data.length = parseCount("length", entry.value());
    }
  }
  if (data.location.empty()) {
    raise<InvalidArgument>("external data: no location is given");
  }
  return data;
}

/// The file of external data; it must lie in the model's folder, also after following links.
std::filesystem::path externalPath(const std::string& location,
                                   const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  if (folder.empty()) {
    raise<FileError>("external data '{}' needs a model that was read from a file", location);
  }
  std::error_code error;
  const fs::path home = fs::canonical(folder, error);
  fs::path file = fs::weakly_canonical(home / fs::path(location), error);
  const fs::path relative = file.lexically_relative(home);
  if (error || fs::path(location).is_absolute() || relative.empty() || *relative.begin() == "..") {
    raise<FileError>("external data '{}' lies outside of the model's folder", location);
  }
  return file;
}

template <class T, class Field>
void copyField(const Field& field, HostTensor& tensor) {
  const auto out = tensor.data<T>();
  for (int i = 0; i < field.size(); ++i) {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      out[static_cast<std::size_t>(i)].bits = static_cast<std::uint16_t>(field.Get(i));
    } else {
      out[static_cast<std::size_t>(i)] = static_cast<T>(field.Get(i));
    }
  }
}

/// How many elements the typed field of the proto has.
std::int64_t fieldSize(const pb::TensorProto& proto, DType dtype) {
  switch (dtype) {
    case DType::F32:
      return proto.float_data_size();
    case DType::F64:
      return proto.double_data_size();
    case DType::I64:
      return proto.int64_data_size();
    case DType::U32:
    case DType::U64:
      return proto.uint64_data_size();
    default:
      return proto.int32_data_size();
  }
}

void readField(const pb::TensorProto& proto, HostTensor& tensor) {
  dispatch(tensor.dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, float>) {
      copyField<T>(proto.float_data(), tensor);
    } else if constexpr (std::is_same_v<T, double>) {
      copyField<T>(proto.double_data(), tensor);
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      copyField<T>(proto.int64_data(), tensor);
    } else if constexpr (std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>) {
      copyField<T>(proto.uint64_data(), tensor);
    } else {
      copyField<T>(proto.int32_data(), tensor);
    }
  });
}

}  // namespace

std::string readModelFile(const std::filesystem::path& path, std::size_t limit) {
  const InputFile file(path);
  if (file.size() > limit) {
    raise<FileError>("model '{}' has {} bytes, the limit is {}; ImportOptions::maxFileBytes is it",
                     path.string(),
                     file.size(),
                     limit);
  }
  return file.content();
}

std::unique_ptr<pb::ModelProto> parseModel(std::span<const std::byte> bytes) {
  auto model = std::make_unique<pb::ModelProto>();
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !model->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model->has_graph()) {
    raise<FileError>("these {} bytes are no ONNX model", bytes.size());
  }
  return model;
}

/// Sizes are compared before anything is allocated.
HostTensor ExternalFiles::read(const pb::TensorProto& proto, const TensorType& type) {
  const ExternalData data = externalData(proto);
  if (data.length && *data.length != type.bytes()) {
    raise<InvalidArgument>("external data '{}' has {} bytes, its type needs {}",
                           data.location,
                           *data.length,
                           type.bytes());
  }
  try {
    const std::filesystem::path path = externalPath(data.location, folder_);
    const Place place = {path, data.offset, type.dtype, type.shape.elements()};
    if (const auto known = tensors_.find(place); known != tensors_.end()) {
      return known->second.reshaped(type.shape);
    }
    const InputFile file(path);
    if (file.size() < data.offset || file.size() - data.offset < type.bytes()) {
      raise<FileError>("it has {} bytes, which is fewer than {} bytes from {} on",
                       file.size(),
                       type.bytes(),
                       data.offset);
    }
    std::uint64_t& taken = taken_[path];
    if (type.bytes() > file.size() - std::min<std::uint64_t>(taken, file.size())) {
      raise<FileError>(
          "tensor '{}' of {} bytes from {} on overlaps others: they have {} of its {} bytes",
          proto.name(),
          type.bytes(),
          data.offset,
          taken,
          file.size());
    }
    taken += type.bytes();
    HostTensor tensor(type);
    file.read(data.offset, {tensor.bytes(), tensor.byteCount()});
    normalizeBools(tensor);
    return tensors_.emplace(place, std::move(tensor)).first->second;
  } catch (Error& error) {
    error.at(fmt::format("external data '{}'", data.location));
    throw;
  }
}

HostTensor toHostTensor(const pb::TensorProto& proto, ExternalFiles& external) {
  const DType dtype = dtypeOf(proto.data_type());
  const TensorType type{dtype, Shape({proto.dims().begin(), proto.dims().end()})};
  const bool isExternal = proto.data_location() == pb::TensorProto::EXTERNAL;
  const std::int64_t elements = type.shape.elements();
  // Sizes are compared before anything is allocated: a few bytes can claim any shape.
  if (!isExternal && proto.has_raw_data() && proto.raw_data().size() != type.bytes()) {
    raise<InvalidArgument>("tensor '{}' of {} needs {} bytes, has {}",
                           proto.name(),
                           type.str(),
                           type.bytes(),
                           proto.raw_data().size());
  }
  if (!isExternal && !proto.has_raw_data() && fieldSize(proto, dtype) != elements) {
    raise<InvalidArgument>("tensor '{}' of {} needs {} elements, has {}",
                           proto.name(),
                           type.str(),
                           elements,
                           fieldSize(proto, dtype));
  }
  if (isExternal) {
    return external.read(proto, type);
  }
  HostTensor tensor(type);
  if (proto.has_raw_data()) {
    if (type.bytes() > 0) {
      std::memcpy(tensor.bytes(), proto.raw_data().data(), type.bytes());
    }
  } else {
    readField(proto, tensor);
  }
  normalizeBools(tensor);
  return tensor;
}

pb::TensorProto toTensorProto(const HostTensor& tensor, const std::string& name) {
  pb::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(static_cast<int>(onnxTypeOf(tensor.dtype())));
  for (const std::int64_t extent : tensor.shape().dims()) {
    proto.add_dims(extent);
  }
  proto.set_raw_data(tensor.bytes(), tensor.byteCount());
  return proto;
}

}  // namespace sluice::onnx
