// The IDX format of the MNIST files: a big-endian header (type, rank, extents), then the elements;
// plain or packed with gzip.
#pragma once

#include <string>

#include "sluice/tensor/host_tensor.h"

namespace sluice::data {

/// Reads a whole file. Throws FileError naming the file and what is wrong with it: missing, no IDX
/// magic, unknown element type, a size that the extents do not explain.
HostTensor readIdx(const std::string& path);

/// Parses the bytes of a file; `name` is for messages.
HostTensor parseIdx(std::string_view bytes, const std::string& name);

}  // namespace sluice::data
