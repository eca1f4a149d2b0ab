// Measures how fast data can be read without a model, from a dataset or through an infeed queue.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/data/dataset.h"
#include "sluice/data/infeed_queue.h"

#pragma GCC visibility push(default)

namespace sluice::data {

struct BenchmarkOptions {
  bool printStats = true;  ///< logs a line per epoch
  bool doMemcpy = true;    ///< copies every element, as handing it to a device would
};

/// Reads `elements` elements of the dataset per epoch, each time from its start. The result is a
/// JSON object:
///   {"epochs": [{"elements_processed", "total_bytes_processed", "time_elapsed" (s),
///                "elements_per_second", "bandwidth" (GB/s)}, ...]}
/// Throws InvalidArgument for counts below 1 and for a dataset with fewer elements.
std::string datasetBenchmark(IterableDataset& dataset,
                             std::int64_t epochs,
                             std::int64_t elements,
                             const BenchmarkOptions& options = {});
/// The same for the elements of a queue. An epoch continues where the previous one ended.
std::string infeedBenchmark(InfeedQueue& queue,
                            std::int64_t epochs,
                            std::int64_t elements,
                            const BenchmarkOptions& options = {});

}  // namespace sluice::data

#pragma GCC visibility pop
