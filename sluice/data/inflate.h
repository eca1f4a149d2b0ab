// Unpacks untrusted bytes up to a limit. Memory grows with the data that is really unpacked, never
// with what a header promises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::data {

/// The default limit in bytes for the unpacked contents of a file: 1 GiB, or 32 times the size of
/// the file if that is more. There is a limit because a small malicious file can unpack to a
/// thousand times its size.
std::uint64_t defaultInflateLimit(std::size_t packedBytes);

/// Throws FileError, which says how to raise the limit, if `bytes` exceeds it.
void requireInflateLimit(std::uint64_t bytes, std::uint64_t limit, const std::string& name);

enum class Packing : std::uint8_t { Deflate, Gzip };

/// Whether the bytes begin as a gzip file does.
bool isGzip(std::string_view bytes);

/// The first `limit` unpacked bytes, or all if there are fewer. Throws FileError, which names
/// `name`, for damaged or truncated data.
std::string inflate(std::string_view bytes,
                    Packing packing,
                    std::size_t limit,
                    const std::string& name);

}  // namespace sluice::data
