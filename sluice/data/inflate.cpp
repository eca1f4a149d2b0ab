#include "sluice/data/inflate.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <zlib.h>

#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"

namespace sluice::data {
namespace {

class Inflater {
 public:
  explicit Inflater(Packing packing) {
    constexpr int kWindow = 15;  // the largest; negative: no header, plus 16: that of gzip
    const int bits = packing == Packing::Gzip ? kWindow + 16 : -kWindow;
    if (inflateInit2(&stream_, bits) != Z_OK) {
      raise<OutOfMemory>("cannot allocate memory for decompression");
    }
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

uInt atMost(std::size_t count) {
  return static_cast<uInt>(std::min<std::size_t>(count, std::numeric_limits<uInt>::max()));
}

}  // namespace

std::uint64_t defaultInflateLimit(std::size_t packedBytes) {
  constexpr std::uint64_t kAlways = std::uint64_t{1} << 30U;
  constexpr std::uint64_t kRatio = 32;
  return std::max(kAlways, kRatio * packedBytes);
}

void requireInflateLimit(std::uint64_t bytes, std::uint64_t limit, const std::string& name) {
  if (bytes > limit) {
    raise<FileError>(
        "'{}' says that it unpacks to {} bytes, the limit is {}: give the reader a larger maxBytes "
        "if you trust the file",
        name,
        bytes,
        limit);
  }
}

bool isGzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

std::string inflate(std::string_view bytes,
                    Packing packing,
                    std::size_t limit,
                    const std::string& name) {
  Inflater inflater(packing);
  z_stream& z = inflater.stream();
  std::string out;
  std::size_t used = 0;
  std::size_t made = 0;
  int status = Z_OK;
  while (status == Z_OK && made < limit) {
    if (made == out.size()) {
      constexpr std::size_t kFirst = std::size_t{64} * 1024;
      const std::size_t room = std::min(limit, std::max(kFirst, 2 * out.size()));
      orOutOfMemory(fmt::format("{} unpacked bytes of '{}'", room, name),
                    [&] { out.resize(room); });
    }
    // zlib's interface has no const; it does not write to its input.
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + used));  // NOLINT
    z.avail_in = atMost(bytes.size() - used);
    z.next_out = reinterpret_cast<Bytef*>(out.data() + made);
    z.avail_out = atMost(out.size() - made);
    const uInt given = z.avail_in;
    const uInt room = z.avail_out;
    status = ::inflate(&z, Z_NO_FLUSH);
    used += given - z.avail_in;
    made += room - z.avail_out;
    if (status == Z_OK && z.avail_in == given && z.avail_out == room) {
      status = Z_BUF_ERROR;
    }
  }
  if (status == Z_BUF_ERROR) {
    raise<FileError>("'{}' ends inside its compressed data, after {} bytes", name, bytes.size());
  }
  if (status != Z_OK && status != Z_STREAM_END) {
    raise<FileError>("'{}': its compressed data are damaged ({})",
                     name,
                     z.msg != nullptr ? z.msg : "unknown reason");
  }
  out.resize(made);
  return out;
}

}  // namespace sluice::data
