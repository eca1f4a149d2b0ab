#include "sluice/tensor/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/base/function_ref.h"
#include "sluice/base/host_limits.h"
#include "sluice/base/input_file.h"
#include "sluice/tensor/bool_bytes.h"

namespace sluice {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "elements are stored as they are");

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // what other readers of the format accept
constexpr std::size_t kMaxRank = 64;

struct TypeName {
  std::string_view text;
  DType dtype;
};
constexpr std::array<TypeName, kNumDTypes> kTypeNames = {{{"F32", DType::F32},
                                                          {"F16", DType::F16},
                                                          {"BF16", DType::BF16},
                                                          {"F64", DType::F64},
                                                          {"I8", DType::I8},
                                                          {"U8", DType::U8},
                                                          {"I16", DType::I16},
                                                          {"U16", DType::U16},
                                                          {"I32", DType::I32},
                                                          {"U32", DType::U32},
                                                          {"I64", DType::I64},
                                                          {"U64", DType::U64},
                                                          {"BOOL", DType::Bool}}};

/// One tensor of a header.
struct Entry {
  std::string name;
  TensorType type;
  std::uint64_t begin = 0;  // bytes behind the header
  std::uint64_t end = 0;
};

struct Header {
  std::vector<Entry> entries;  // in the order of their bytes
  Metadata metadata;
};

/// Refuses names that come twice, which a JSON object would silently merge, and what is nested
/// deeper or is longer than a header of this format can be. It sees the parts as they are read: a
/// filter of the finished values would look at all tensors after each of them.
class HeaderGuard : public nlohmann::json_sax<json> {
 public:
  explicit HeaderGuard(std::string_view file) : file_(file) {}

  bool null() override { return value(); }
  bool boolean(bool /*value*/) override { return value(); }
  bool number_integer(number_integer_t /*value*/) override { return value(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return value(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return value(); }
  bool string(string_t& /*value*/) override { return value(); }
  bool binary(binary_t& /*value*/) override { return value(); }
  bool start_object(std::size_t /*elements*/) override { return open(); }
  bool start_array(std::size_t /*elements*/) override {
    if (depth_ == 0) {
      refuse();
    }
    return open();
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!names_[depth_ - 1].insert(name).second) {
      raise<FileError>("'{}': the name '{}' comes twice in the header", file_, name);
    }
    return true;
  }
  bool parse_error(std::size_t /*position*/,
                   const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    raise<FileError>("'{}': the header is not JSON: {}", file_, error.what());
  }

 private:
  using Names = std::unordered_set<std::string>;
  static constexpr std::size_t kDepth = 3;  // header, tensor, shape, extent

  [[noreturn]] void refuse() const {
    raise<FileError>("'{}': the header is not an object of tensors", file_);
  }
  bool value() {
    if (depth_ == 0) {
      refuse();
    }
    if (depth_ == kDepth && ++items_ > kMaxRank) {
      raise<FileError>("'{}': a tensor of more than {} dimensions", file_, kMaxRank);
    }
    return true;
  }
  bool open() {
    if (depth_ == kDepth) {
      refuse();
    }
    names_[depth_++] = Names();  // clear() takes as long as the largest set of names did
    items_ = 0;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  std::string_view file_;
  std::array<Names, kDepth> names_;  // of the open object, by depth
  std::size_t depth_ = 0;
  std::size_t items_ = 0;
};

json parseJson(std::string_view text, std::string_view file) {
  HeaderGuard guard(file);
  json::sax_parse(text, &guard);
  return json::parse(text);
}

/// The non-negative integers of an array.
std::vector<std::uint64_t> numbersOf(const json& description,
                                     const char* key,
                                     std::string_view name,
                                     std::string_view file) {
  const auto found = description.find(key);
  std::vector<std::uint64_t> numbers;
  bool good = found != description.end() && found->is_array();
  for (std::size_t i = 0; good && i < found->size(); ++i) {
    good = (*found)[i].is_number_unsigned();
    numbers.push_back(good ? (*found)[i].get<std::uint64_t>() : 0);
  }
  if (!good) {
    raise<FileError>("'{}': tensor '{}': {} must be an array of integers from 0", file, name, key);
  }
  return numbers;
}

DType dtypeOf(const json& description, std::string_view name, std::string_view file) {
  const auto found = description.find("dtype");
  const std::string text =
      found != description.end() && found->is_string() ? found->get<std::string>() : "";
  const auto known = std::ranges::find(kTypeNames, text, &TypeName::text);
  if (known == kTypeNames.end()) {
    raise<FileError>(
        "'{}': tensor '{}' has the type '{}', which is not supported", file, name, text);
  }
  return known->dtype;
}

Shape shapeOf(const std::vector<std::uint64_t>& extents,
              std::string_view name,
              std::string_view file) {
  std::vector<std::int64_t> dims;
  dims.reserve(extents.size());
  for (const std::uint64_t extent : extents) {
    dims.push_back(extent > INT64_MAX ? -1 : static_cast<std::int64_t>(extent));
  }
  try {
    return Shape(std::move(dims));
  } catch (const InvalidArgument& error) {
    raise<FileError>("'{}': tensor '{}': {}", file, name, error.message());
  }
}

Entry entryOf(const std::string& name, const json& description, std::string_view file) {
  if (!description.is_object() || description.size() != 3) {
    raise<FileError>("'{}': tensor '{}' must have dtype, shape and data_offsets", file, name);
  }
  const DType dtype = dtypeOf(description, name, file);
  Entry entry{name, {dtype, shapeOf(numbersOf(description, "shape", name, file), name, file)}};
  const std::vector<std::uint64_t> range = numbersOf(description, "data_offsets", name, file);
  if (range.size() != 2 || range[0] > range[1]) {
    raise<FileError>("'{}': tensor '{}': data_offsets must be a first and a last byte", file, name);
  }
  entry.begin = range[0];
  entry.end = range[1];
  if (entry.end - entry.begin != entry.type.bytes()) {
    raise<FileError>("'{}': tensor '{}' is {}, which is {} bytes, but its range has {}",
                     file,
                     name,
                     entry.type.str(),
                     entry.type.bytes(),
                     entry.end - entry.begin);
  }
  return entry;
}

Metadata metadataOf(const json& texts, std::string_view file) {
  Metadata metadata;
  bool good = texts.is_object();
  if (good) {
    for (const auto& [key, text] : texts.items()) {
      good = good && text.is_string();
      metadata.emplace(key, text.is_string() ? text.get<std::string>() : "");
    }
  }
  if (!good) {
    raise<FileError>("'{}': {} must map names to texts", file, kMetadata);
  }
  return metadata;
}

/// Every byte belongs to one tensor.
void requireSeamless(const std::vector<Entry>& entries,
                     std::uint64_t payload,
                     std::string_view file) {
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.end > payload) {
      raise<FileError>("'{}': tensor '{}' ends at byte {} of {}: the file is cut off",
                       file,
                       entry.name,
                       entry.end,
                       payload);
    }
    if (entry.begin != at) {
      raise<FileError>("'{}': tensor '{}' begins at byte {}, expected {}: {}",
                       file,
                       entry.name,
                       entry.begin,
                       at,
                       entry.begin < at ? "tensors overlap" : "bytes of no tensor");
    }
    at = entry.end;
  }
  if (at != payload) {
    raise<FileError>("'{}' has {} bytes behind its last tensor", file, payload - at);
  }
}

Header parseHeader(std::string_view text, std::uint64_t payload, std::string_view file) {
  const json parsed = parseJson(text, file);
  if (!parsed.is_object()) {
    raise<FileError>("'{}': the header is not an object of tensors", file);
  }
  Header header;
  for (const auto& [name, description] : parsed.items()) {
    if (name == kMetadata) {
      header.metadata = metadataOf(description, file);
    } else {
      header.entries.push_back(entryOf(name, description, file));
    }
  }
  std::ranges::sort(header.entries, [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  requireSeamless(header.entries, payload, file);
  return header;
}

/// Copies bytes of the file, in ascending order, to memory.
using Reader = FunctionRef<void(std::uint64_t offset, std::span<std::byte> to)>;

SafeTensors readFrom(Reader read, std::uint64_t size, std::string_view file) {
  std::uint64_t length = 0;
  if (size < kLengthBytes) {
    raise<FileError>("'{}' has {} bytes: too short for a safetensors file", file, size);
  }
  read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxHeader) {
    raise<FileError>("'{}': a header of {} bytes, at most {} are accepted: no safetensors file",
                     file,
                     length,
                     kMaxHeader);
  }
  if (length > size - kLengthBytes) {
    raise<FileError>(
        "'{}': a header of {} bytes in a file of {}: the file is cut off", file, length, size);
  }
  std::string text(length, '\0');
  read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  const std::uint64_t payload = kLengthBytes + length;
  Header header = parseHeader(text, size - payload, file);
  SafeTensors content{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const Entry& entry : header.entries) {
    HostTensor tensor(entry.type);
    read(payload + entry.begin, {tensor.bytes(), tensor.byteCount()});
    normalizeBools(tensor);
    content.tensors.emplace(entry.name, std::move(tensor));
  }
  return content;
}

/// Largest elements first, so that all of them are aligned; then by name.
std::vector<const NamedTensors::value_type*> inFileOrder(const NamedTensors& tensors) {
  std::vector<const NamedTensors::value_type*> order;
  for (const auto& entry : tensors) {
    order.push_back(&entry);
  }
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) {
    return byteSize(a->second.dtype()) > byteSize(b->second.dtype());
  });
  return order;
}

std::string_view asText(const HostTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes()), tensor.byteCount()};
}

/// The length and the header, padded so that the elements behind it are aligned.
std::string headerOf(const SafeTensors& content) {
  json header = json::object();
  if (!content.metadata.empty()) {
    header[kMetadata] = content.metadata;
  }
  std::uint64_t at = 0;
  for (const auto* entry : inFileOrder(content.tensors)) {
    const auto& [name, tensor] = *entry;
    if (name == kMetadata) {
      raise<InvalidArgument>("safetensors: a tensor cannot be called '{}'", name);
    }
    const auto type = std::ranges::find(kTypeNames, tensor.dtype(), &TypeName::dtype);
    header[name] = {{"dtype", type->text},
                    {"shape", tensor.shape().dims()},
                    {"data_offsets", {at, at + tensor.byteCount()}}};
    at += tensor.byteCount();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& error) {
    raise<InvalidArgument>("safetensors: names and metadata must be UTF-8: {}", error.what());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string result(kLengthBytes, '\0');
  std::memcpy(result.data(), &length, sizeof(length));
  return result + text;
}

}  // namespace

SafeTensors parseSafeTensors(std::string_view bytes, std::string_view name) {
  const auto read = [&](std::uint64_t offset, std::span<std::byte> to) {
    if (!to.empty()) {
      std::memcpy(to.data(), bytes.data() + offset, to.size());
    }
  };
  return readFrom(read, bytes.size(), name);
}

SafeTensors readSafeTensors(const std::filesystem::path& path) {
  const InputFile file(path);
  const auto read = [&](std::uint64_t offset, std::span<std::byte> to) { file.read(offset, to); };
  return orOutOfMemory(fmt::format("the tensors of '{}'", path.string()),
                       [&] { return readFrom(read, file.size(), path.string()); });
}

void writeSafeTensors(const std::filesystem::path& path, const SafeTensors& content) {
  const std::string header = headerOf(content);
  std::vector<std::string_view> parts = {header};
  for (const auto* entry : inFileOrder(content.tensors)) {
    parts.push_back(asText(entry->second));
  }
  writeFileAtomically(path, parts);
}

std::string serializeSafeTensors(const SafeTensors& content) {
  std::string bytes = headerOf(content);
  for (const auto* entry : inFileOrder(content.tensors)) {
    bytes += asText(entry->second);
  }
  return bytes;
}

}  // namespace sluice
