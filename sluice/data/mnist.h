// MNIST and Fashion-MNIST from their four IDX files, ready for a network: images as float32
// [n, 1, 28, 28], normalised, labels as int64 [n].
#pragma once

#include <string>

#include "sluice/tensor/host_tensor.h"

namespace sluice::data {

struct ImageSet {
  HostTensor images;
  HostTensor labels;
};

enum class Split : std::uint8_t { Train, Test };

/// Reads <folder>/train-images-idx3-ubyte and the like. Throws FileError when a file is missing or
/// not what it should be; the message says how to fetch the data.
ImageSet loadMnist(const std::string& folder, Split split);

/// (x / 255 - mean) / deviation of unsigned bytes [n, h, w], as float32 [n, 1, h, w].
HostTensor normalizeImages(const HostTensor& bytes, double mean, double deviation);

}  // namespace sluice::data
