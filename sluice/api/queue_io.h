// QueueFeed and QueueSink: the ends of an infeed and an outfeed queue at a running step. Element k
// of the infeed since the step began goes to micro-batch k / replicas of replica k % replicas.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "sluice/data/infeed_queue.h"
#include "sluice/data/outfeed_queue.h"
#include "sluice/runtime/host_io.h"

namespace sluice {

class QueueFeed : public runtime::HostFeed {
 public:
  /// A null queue: for steps without inputs.
  QueueFeed(data::InfeedQueue* queue, std::int64_t replicas);
  const void* take(std::int32_t input, std::int64_t microBatch) override;
  bool mayBlock() const override { return queue_ != nullptr; }

 private:
  /// The tensors that were dequeued for an input of a replica; the first one may be in use.
  struct Stream {
    std::deque<HostTensor> tensors;
    std::int64_t first = 0;  // micro-batch of the first one, in the replica
  };
  Stream& stream(std::size_t input, std::int64_t replica) {
    return streams_[input * static_cast<std::size_t>(replicas_) +
                    static_cast<std::size_t>(replica)];
  }

  data::InfeedQueue* queue_;
  std::int64_t replicas_;
  std::mutex mutex_;  // guards what follows
  std::vector<Stream> streams_;
  std::int64_t dequeued_ = 0;  // in this step
};

class QueueSink : public runtime::HostSink {
 public:
  /// A null queue, and outputs behind those it was defined for: dropped. `sumOver` consecutive
  /// micro-batches are added up and put as one.
  QueueSink(data::OutfeedQueue* queue,
            const data::Types& types,
            std::int64_t replicas,
            std::int64_t sumOver = 1);
  void put(std::int32_t output, std::int64_t microBatch, const void* data) override;
  bool mayBlock() const override { return queue_ != nullptr; }

 private:
  data::OutfeedQueue* queue_;
  data::Types types_;
  std::int64_t replicas_;
  std::int64_t sumOver_;
  // By output and replica; each is written by one lane only.
  std::vector<HostTensor> sums_;
};

}  // namespace sluice
