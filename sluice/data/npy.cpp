#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/base/input_file.h"
#include "sluice/data/file.h"
#include "sluice/data/files.h"
#include "sluice/data/payload.h"
#include "sluice/tensor/bool_bytes.h"

namespace sluice::data {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x93NUMPY"sv;

struct TypeCode {
  std::string_view code;  // kind and bytes
  DType dtype;
};
constexpr std::array<TypeCode, 12> kTypes = {{{"f4", DType::F32},
                                              {"f8", DType::F64},
                                              {"f2", DType::F16},
                                              {"i1", DType::I8},
                                              {"u1", DType::U8},
                                              {"i2", DType::I16},
                                              {"u2", DType::U16},
                                              {"i4", DType::I32},
                                              {"u4", DType::U32},
                                              {"i8", DType::I64},
                                              {"u8", DType::U64},
                                              {"b1", DType::Bool}}};

struct NpyHeader {
  DType dtype = DType::F32;
  bool bigEndian = false;
  bool fortranOrder = false;
  Shape shape;
  std::size_t bytes = 0;  // in front of the elements
};

/// Reads the one kind of Python literal that headers are: a dictionary of text, bool and a tuple.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        readType(quoted());
      } else if (key == "fortran_order") {
        header_.fortranOrder = boolean();
      } else if (key == "shape") {
        readShape();
      } else {
        fail("an unknown key");
      }
      seen_ |= key == "descr" ? 1 : key == "shape" ? 2 : 4;
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (seen_ != 7) {
      fail("a missing key: it needs descr, fortran_order and shape");
    }
    return header_;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    raise<FileError>("'{}': the header of the array has {} near character {}", name_, what, at_);
  }
  void skipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }
  bool accept(char c) {
    skipSpace();
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }
  void expect(char c) {
    if (!accept(c)) {
      fail(fmt::format("no '{}'", c));
    }
  }
  std::string_view quoted() {
    skipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') {
      fail("no text");
    }
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) {
      fail("text without an end");
    }
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skipSpace();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    fail("neither True nor False");
  }
  void readType(std::string_view code) {
    const auto found = std::ranges::find(
        kTypes, code.substr(std::min<std::size_t>(1, code.size())), &TypeCode::code);
    if (code.empty() || "<>|="sv.find(code[0]) == std::string_view::npos || found == kTypes.end()) {
      raise<FileError>(
          "'{}': arrays of type '{}' are not supported, only numbers and booleans", name_, code);
    }
    header_.dtype = found->dtype;
    header_.bigEndian = code[0] == '>';
  }
  void readShape() {
    std::vector<std::int64_t> dims;
    expect('(');
    while (!accept(')')) {
      skipSpace();
      std::int64_t extent = -1;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), extent);
      constexpr std::size_t kMostDims = 64;
      if (error != std::errc() || extent < 0 || dims.size() >= kMostDims) {
        fail("a wrong extent");
      }
      at_ += static_cast<std::size_t>(end - begin);
      dims.push_back(extent);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    try {
      header_.shape = Shape(std::move(dims));
    } catch (const InvalidArgument& error) {
      raise<FileError>("'{}': {}", name_, error.message());
    }
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  unsigned seen_ = 0;
  NpyHeader header_;
};

NpyHeader parseNpyHeader(std::string_view bytes, const std::string& name) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 8) {
    raise<FileError>("'{}' is not an .npy file: it must start with \\x93NUMPY and a version", name);
  }
  const int major = static_cast<unsigned char>(bytes[6]);
  if (major < 1 || major > 3) {
    raise<FileError>("'{}' has version {} of the .npy format; 1 to 3 are known", name, major);
  }
  const std::size_t lengthBytes = major == 1 ? 2 : 4;
  const std::size_t start = 8 + lengthBytes;
  const std::uint64_t length = bytes.size() < start ? 0 : littleEndian(bytes, 8, lengthBytes);
  if (bytes.size() < start || bytes.size() - start < length) {
    raise<FileError>("'{}' ends inside its header, after {} bytes", name, bytes.size());
  }
  NpyHeader header = HeaderParser(bytes.substr(start, length), name).parse();
  header.bytes = start + length;
  return header;
}

/// Column-major elements to row-major ones.
HostTensor transposed(const HostTensor& from, const Shape& shape) {
  HostTensor to(from.dtype(), shape);
  const std::size_t size = byteSize(from.dtype());
  std::vector<std::int64_t> index(shape.dims().size(), 0);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    std::int64_t column = 0;
    for (std::size_t d = index.size(); d-- > 0;) {
      column = column * shape.dims()[d] + index[d];
    }
    std::memcpy(to.bytes() + static_cast<std::size_t>(i) * size,
                from.bytes() + static_cast<std::size_t>(column) * size,
                size);
    for (std::size_t d = index.size(); d-- > 0 && ++index[d] == shape.dims()[d];) {
      index[d] = 0;
    }
  }
  return to;
}

}  // namespace

HostTensor parseNpy(std::string_view bytes, const std::string& name) {
  const NpyHeader header = parseNpyHeader(bytes, name);
  const TensorType type{header.dtype, header.shape};
  const ByteOrder order = header.bigEndian ? ByteOrder::Big : ByteOrder::Little;
  HostTensor tensor = fromPayload(type, bytes.substr(header.bytes), order, name);
  normalizeBools(tensor);
  return header.fortranOrder && type.shape.rank() > 1 ? transposed(tensor, type.shape) : tensor;
}

HostTensor readNpy(const std::string& path) {
  return parseNpy(readFile(path), path);
}

std::string npyBytes(const HostTensor& tensor) {
  const auto found = std::ranges::find(kTypes, tensor.dtype(), &TypeCode::dtype);
  if (found == kTypes.end()) {
    raise<Unsupported>("NumPy has no type for {}; cast the tensor first", tensor.type().str());
  }
  const std::vector<std::int64_t>& dims = tensor.shape().dims();
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   byteSize(tensor.dtype()) == 1 ? '|' : '<',
                                   found->code,
                                   fmt::join(dims, ", "),
                                   dims.size() == 1 ? "," : "");
  constexpr std::size_t kAlignment = 64;  // of the elements in the file
  const std::size_t used = kMagic.size() + 4 + header.size() + 1;
  header.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string bytes(kMagic);
  bytes +=
      {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(tensor.bytes()), tensor.byteCount());
  return bytes;
}

}  // namespace sluice::data
