#include <optional>

#include "sluice/base/error.h"
#include "sluice/base/input_file.h"
#include "sluice/data/files.h"
#include "sluice/data/inflate.h"
#include "sluice/data/payload.h"

namespace sluice::data {
namespace {

std::optional<DType> dtypeOf(unsigned char code) {
  switch (code) {
    case 0x08:
      return DType::U8;
    case 0x09:
      return DType::I8;
    case 0x0B:
      return DType::I16;
    case 0x0C:
      return DType::I32;
    case 0x0D:
      return DType::F32;
    case 0x0E:
      return DType::F64;
    default:
      return std::nullopt;
  }
}

std::uint32_t bigEndian32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char c : bytes.substr(0, 4)) {
    value = (value << 8) | static_cast<unsigned char>(c);
  }
  return value;
}

/// What the first bytes of a file say.
struct Header {
  TensorType type;
  std::size_t bytes = 0;  // of the header
};

Header parseHeader(std::string_view bytes, const std::string& name) {
  if (bytes.size() < 4 || bytes[0] != 0 || bytes[1] != 0) {
    raise<FileError>(
        "'{}' is not an IDX file: it must start with two zero bytes, a type and a rank", name);
  }
  const std::optional<DType> dtype = dtypeOf(static_cast<unsigned char>(bytes[2]));
  if (!dtype) {
    raise<FileError>("'{}': element type 0x{:02x} is not an IDX type (0x08, 0x09, 0x0b to 0x0e)",
                     name,
                     static_cast<unsigned>(static_cast<unsigned char>(bytes[2])));
  }
  const auto rank = static_cast<std::size_t>(static_cast<unsigned char>(bytes[3]));
  const std::size_t header = 4 + 4 * rank;
  if (bytes.size() < header) {
    raise<FileError>("'{}' ends inside its header: rank {} needs {} bytes, the file has {}",
                     name,
                     rank,
                     header,
                     bytes.size());
  }
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < rank; ++i) {
    dims.push_back(bigEndian32(bytes.substr(4 + 4 * i)));
  }
  try {
    return {{*dtype, Shape(std::move(dims))}, header};
  } catch (const InvalidArgument& error) {
    raise<FileError>("'{}': {}", name, error.message());
  }
}

constexpr std::size_t kLongestHeader = 4 + 4 * 255;

}  // namespace

HostTensor parseIdx(std::string_view bytes,
                    const std::string& name,
                    std::optional<std::uint64_t> maxBytes) {
  if (isGzip(bytes)) {
    const Header header = parseHeader(inflate(bytes, Packing::Gzip, kLongestHeader, name), name);
    requireInflateLimit(
        header.type.bytes(), maxBytes.value_or(defaultInflateLimit(bytes.size())), name);
    // One byte more than there may be, so that too many are seen.
    const std::string whole =
        inflate(bytes, Packing::Gzip, header.bytes + header.type.bytes() + 1, name);
    return parseIdx(whole, name);
  }
  const auto [type, header] = parseHeader(bytes, name);
  return fromPayload(type, bytes.substr(header), ByteOrder::Big, name);
}

HostTensor readIdx(const std::string& path, std::optional<std::uint64_t> maxBytes) {
  return parseIdx(readFile(path), path, maxBytes);
}

}  // namespace sluice::data
