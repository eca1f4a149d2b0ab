// MNIST and Fashion-MNIST from their four IDX files, plain or packed (.gz), ready for a network.
#pragma once

#include <string>

#include "sluice/data/dataset.h"

namespace sluice::data {

enum class Split : std::uint8_t { Train, Test };

/// Samples {image f32[1, 28, 28], label i64[]}, images normalised (mean 0.1307, deviation 0.3081)
/// while they are read. Files are <folder>/train-images-idx3-ubyte and the like. Throws FileError
/// when one is missing or not what it should be; the message says how to fetch the data.
DatasetPtr mnistDataset(const std::string& folder, Split split);

}  // namespace sluice::data
