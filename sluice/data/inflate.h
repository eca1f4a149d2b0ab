// Decompression of untrusted bytes with a limit: memory grows with what really comes out, never
// with what a header promises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::data {

/// What a packed file may unpack to unless the reader is told otherwise: 1 GiB, or 32 times the
/// file where that is more. Data packs to a thousandth at best, so a small file of no use can hold
/// much.
std::uint64_t defaultInflateLimit(std::size_t packedBytes);

/// Throws FileError that says how to raise the limit.
void requireInflateLimit(std::uint64_t bytes, std::uint64_t limit, const std::string& name);

enum class Packing : std::uint8_t { Deflate, Gzip };

/// Whether the bytes begin as a gzip file does.
bool isGzip(std::string_view bytes);

/// The first `limit` bytes of what was packed, or all if that is less. Throws FileError naming
/// `name` for damaged or truncated data.
std::string inflate(std::string_view bytes,
                    Packing packing,
                    std::size_t limit,
                    const std::string& name);

}  // namespace sluice::data
