// MNIST and Fashion-MNIST from their four IDX files, plain or packed (.gz), ready for a network.
#pragma once

#include <string>

#include "sluice/data/dataset.h"

#pragma GCC visibility push(default)

namespace sluice::data {

enum class Split : std::uint8_t { Train, Test };

/// Samples are {image f32[1, 28, 28], label i64[]}. Images are normalised (mean 0.1307, deviation
/// 0.3081) while they are read. The files are <folder>/train-images-idx3-ubyte and so on. Throws
/// FileError for a file that is missing or invalid; the message says how to get the data.
DatasetPtr mnistDataset(const std::string& folder, Split split);

}  // namespace sluice::data

#pragma GCC visibility pop
