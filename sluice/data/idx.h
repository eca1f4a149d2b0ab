// Reads the IDX format of the MNIST files: a big-endian header (type, rank, extents), then the
// elements. Files may be plain or packed with gzip.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice::data {

/// Reads a whole file. Throws FileError, which names the file and what is wrong with it: the file
/// is missing, has no IDX magic number or an unknown element type, its size does not match the
/// extents, or it has more than `maxBytes` bytes when unpacked (default: defaultInflateLimit).
HostTensor readIdx(const std::string& path, std::optional<std::uint64_t> maxBytes = {});

/// Parses the contents of a file; `name` is for messages.
HostTensor parseIdx(std::string_view bytes,
                    const std::string& name,
                    std::optional<std::uint64_t> maxBytes = {});

}  // namespace sluice::data

#pragma GCC visibility pop
