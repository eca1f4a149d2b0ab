// Functions that make a dataset from another. A map-style dataset gives a map-style one: nothing is
// computed before a sample is read, and several threads may read it if the given functions allow
// that. An iterable dataset is taken over: nothing else may read it afterwards.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/data/dataset.h"

#pragma GCC visibility push(default)

namespace sluice::data {

/// What happens to samples that do not fill a batch.
enum class Remainder : std::uint8_t { Drop, Keep };

/// Converts images of bytes to floats from 0 to 1 with the channels first: u8[h, w] to f32[1, h,
/// w], u8[h, w, c] to f32[c, h, w]. Throws InvalidArgument if tensor number `tensor` is not such an
/// image.
DatasetPtr toTensor(DatasetPtr dataset, std::size_t tensor = 0);
/// Computes (x - mean) / deviation of a float32 tensor; several values are one per channel (the
/// first dimension). After toTensor, both transforms are one step with one rounding. Throws
/// InvalidArgument for another type, another number of channels, and a deviation of 0.
DatasetPtr normalize(DatasetPtr dataset,
                     std::vector<double> mean,
                     std::vector<double> deviation,
                     std::size_t tensor = 0);
/// Applies a function to every sample. Its results must have the same types for all samples.
DatasetPtr map(DatasetPtr dataset, SampleFunction function);
/// Visits the samples in a random order that depends only on the seed. A DataLoader can itself
/// shuffle, in another order in each epoch.
DatasetPtr shuffle(DatasetPtr dataset, std::uint64_t seed);
/// Repeats the dataset `times` times.
DatasetPtr repeat(DatasetPtr dataset, std::int64_t times);
/// The first `count` samples, or all if there are fewer.
DatasetPtr take(DatasetPtr dataset, std::int64_t count);
/// Stacks every `size` consecutive samples into one.
DatasetPtr batch(DatasetPtr dataset, std::int64_t size, Remainder remainder = Remainder::Drop);
/// Joins the tensors of the samples of all datasets into one sample. Throws InvalidArgument unless
/// all datasets have the same size.
DatasetPtr zip(std::vector<DatasetPtr> datasets);

/// The samples of a map-style dataset in their order.
IterablePtr iterate(DatasetPtr dataset);
IterablePtr map(IterablePtr dataset, SampleFunction function);
/// Draws samples from a buffer of `bufferSize`. Every restart gives another order; all orders
/// depend only on the seed.
IterablePtr shuffle(IterablePtr dataset, std::int64_t bufferSize, std::uint64_t seed);
/// Repeats the dataset `times` times; without end if `times` is negative.
IterablePtr repeat(IterablePtr dataset, std::int64_t times = -1);
IterablePtr take(IterablePtr dataset, std::int64_t count);
IterablePtr batch(IterablePtr dataset, std::int64_t size, Remainder remainder = Remainder::Drop);
/// Ends when the first of the datasets ends.
IterablePtr zip(std::vector<IterablePtr> datasets);

}  // namespace sluice::data

#pragma GCC visibility pop
