#include "sluice/data/assembler.h"

#include <algorithm>

#include "sluice/base/error.h"

namespace sluice::data {
namespace {

constexpr std::int64_t kMostWorkers = 1024;

void require(const LoaderOptions& o) {
  const std::int64_t batch = o.batchSize.value_or(1);
  if (batch < 1) {
    raise<InvalidArgument>("loader: the batch size must be positive, got {}", batch);
  }
  if (o.workers < 0 || o.workers > kMostWorkers) {
    raise<InvalidArgument>("loader: workers must be 0 to {}, got {}", kMostWorkers, o.workers);
  }
  if (o.bufferSize < 1) {
    raise<InvalidArgument>("loader: bufferSize must be positive, got {}", o.bufferSize);
  }
  if (o.rebatchedWorkerSize < 0 || o.rebatchedWorkerSize > batch) {
    raise<InvalidArgument>("loader: rebatchedWorkerSize must be at most the batch of {}, got {}",
                           batch,
                           o.rebatchedWorkerSize);
  }
  const Shard& s = o.shard;
  if (s.count < 1 || s.index < 0 || s.index >= s.count || s.block < 1 || batch % s.block != 0) {
    raise<InvalidArgument>("loader: shard {} of {} in blocks of {} does not fit batches of {}",
                           s.index,
                           s.count,
                           s.block,
                           batch);
  }
  if (!o.tail.empty() && (s.count > 1 || !o.batchSize)) {
    raise<InvalidArgument>(
        "loader: the samples behind full batches cannot be shared by {} processes", s.count);
  }
}

}  // namespace

Assembler::Assembler(const LoaderOptions& given) : options(given) {
  require(options);
}

std::int64_t Assembler::partSize(std::int64_t count, std::int64_t threads) const {
  const std::int64_t equal = (count + threads - 1) / threads;
  if (options.mode != LoaderMode::AsyncRebatched) {
    return equal;
  }
  constexpr std::int64_t kPartsPerWorker = 4;
  return options.rebatchedWorkerSize > 0 ? options.rebatchedWorkerSize
                                         : std::max<std::int64_t>(1, equal / kPartsPerWorker);
}

}  // namespace sluice::data
