// Datasets made of datasets. Those of a map-style dataset stay map-style: nothing is computed
// before a sample is read, and reading is safe from several threads if the functions given are.
// Those of an iterable one take it over: nobody else may read it.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/data/dataset.h"

namespace sluice::data {

/// What becomes of samples that do not fill a batch.
enum class Remainder : std::uint8_t { Drop, Keep };

/// Images of bytes to floats of 0 to 1 with the channels first: u8[h, w] to f32[1, h, w], u8[h, w,
/// c] to f32[c, h, w]. Throws InvalidArgument if tensor number `tensor` is none.
DatasetPtr toTensor(DatasetPtr dataset, std::size_t tensor = 0);
/// (x - mean) / deviation of a float32 tensor, by channel (its first dimension) if there are
/// several values. Behind toTensor both are one step with one rounding. Throws InvalidArgument for
/// another type, another number of channels, or a deviation of 0.
DatasetPtr normalize(DatasetPtr dataset,
                     std::vector<double> mean,
                     std::vector<double> deviation,
                     std::size_t tensor = 0);
/// Any function of a sample; its results must have the same types for all samples.
DatasetPtr map(DatasetPtr dataset, SampleFunction function);
/// In a random order that the seed fixes. A DataLoader shuffles each epoch anew by itself.
DatasetPtr shuffle(DatasetPtr dataset, std::uint64_t seed);
/// The dataset `times` times, one behind the other.
DatasetPtr repeat(DatasetPtr dataset, std::int64_t times);
/// The first `count` samples, or all if there are fewer.
DatasetPtr take(DatasetPtr dataset, std::int64_t count);
/// Samples of `size` consecutive ones stacked.
DatasetPtr batch(DatasetPtr dataset, std::int64_t size, Remainder remainder = Remainder::Drop);
/// The tensors of the samples of each dataset behind each other. Throws InvalidArgument unless all
/// have the same size.
DatasetPtr zip(std::vector<DatasetPtr> datasets);

/// The samples of a map-style dataset in their order.
IterablePtr iterate(DatasetPtr dataset);
IterablePtr map(IterablePtr dataset, SampleFunction function);
/// Draws from a buffer of `bufferSize` samples; restart continues with another order, and the seed
/// fixes all of them.
IterablePtr shuffle(IterablePtr dataset, std::int64_t bufferSize, std::uint64_t seed);
/// Times < 0: without end.
IterablePtr repeat(IterablePtr dataset, std::int64_t times = -1);
IterablePtr take(IterablePtr dataset, std::int64_t count);
IterablePtr batch(IterablePtr dataset, std::int64_t size, Remainder remainder = Remainder::Drop);
/// Ends with the first that ends.
IterablePtr zip(std::vector<IterablePtr> datasets);

}  // namespace sluice::data
