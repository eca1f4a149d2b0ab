// The IDX format of the MNIST files: a big-endian header (type, rank, extents), then the elements;
// plain or packed with gzip.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sluice/tensor/host_tensor.h"

namespace sluice::data {

/// Reads a whole file. Throws FileError naming the file and what is wrong with it: missing, no IDX
/// magic, unknown element type, a size that the extents do not explain, or a packed file of more
/// than `maxBytes` unpacked (none given: see defaultInflateLimit).
HostTensor readIdx(const std::string& path, std::optional<std::uint64_t> maxBytes = {});

/// Parses the bytes of a file; `name` is for messages.
HostTensor parseIdx(std::string_view bytes,
                    const std::string& name,
                    std::optional<std::uint64_t> maxBytes = {});

}  // namespace sluice::data
