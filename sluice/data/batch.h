// Batch: a batch as loaders and queues pass it on.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice::data {

struct Batch {
  std::vector<HostTensor> tensors;
  std::int64_t epoch = 0;
  std::int64_t index = 0;  ///< in its epoch
};

}  // namespace sluice::data

#pragma GCC visibility pop
