// MemoryLoader: batches of a data set that is in memory. Which samples make a batch depends only on
// the seed, the epoch and the batch number, so a run can be repeated or resumed anywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/data/sample_order.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::data {

class MemoryLoader {
 public:
  /// The tensors' first dimensions must agree; a batch has `batchSize` samples of each. The rest
  /// that does not fill a batch is left out. Throws InvalidArgument.
  MemoryLoader(std::vector<HostTensor> tensors,
               std::int64_t batchSize,
               Shuffle shuffle = Shuffle::No,
               std::uint64_t seed = 0);

  std::int64_t samples() const { return samples_; }
  std::int64_t batchSize() const { return batchSize_; }
  std::int64_t batches() const { return samples_ / batchSize_; }

  /// One batch, copied. Throws InvalidArgument when there is no such batch.
  std::vector<HostTensor> batch(std::int64_t epoch, std::int64_t index) const;

 private:
  const std::vector<std::int64_t>& orderOf(std::int64_t epoch) const;

  std::vector<HostTensor> tensors_;
  std::int64_t samples_ = 0;
  std::int64_t batchSize_;
  Shuffle shuffle_;
  std::uint64_t seed_;
  mutable std::int64_t orderEpoch_ = -1;  // epoch of the cached order
  mutable std::vector<std::int64_t> order_;
};

}  // namespace sluice::data
