// How fast data can be read, without a model: of a dataset, and through an infeed queue.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/data/dataset.h"
#include "sluice/data/infeed_queue.h"

namespace sluice::data {

struct BenchmarkOptions {
  bool printStats = true;  ///< logs a line per epoch
  bool doMemcpy = true;    ///< copies every element, as handing it to a device would
};

/// Reads `elements` of the dataset per epoch, from its begin each time. The result is a JSON
/// object:
///   {"epochs": [{"elements_processed", "total_bytes_processed", "time_elapsed" (s),
///                "elements_per_second", "bandwidth" (GB/s)}, ...]}
/// Throws InvalidArgument for counts below 1 and for a dataset that ends before.
std::string datasetBenchmark(IterableDataset& dataset,
                             std::int64_t epochs,
                             std::int64_t elements,
                             const BenchmarkOptions& options = {});
/// The same of what arrives at a queue; the queue goes on from epoch to epoch.
std::string infeedBenchmark(InfeedQueue& queue,
                            std::int64_t epochs,
                            std::int64_t elements,
                            const BenchmarkOptions& options = {});

}  // namespace sluice::data
