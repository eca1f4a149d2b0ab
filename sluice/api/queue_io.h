// The two ends of a step that runs on queues: the engine takes micro-batches from an InfeedQueue
// and puts results into an OutfeedQueue while it runs.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "sluice/api/batch.h"
#include "sluice/api/processes.h"
#include "sluice/api/step.h"
#include "sluice/base/hash.h"
#include "sluice/data/queues.h"
#include "sluice/program/program.h"

namespace sluice {

/// What this process takes of the elements of a model that several processes share.
struct FeedShare {
  /// `layout` counts the replicas of all processes.
  FeedShare(const Processes& processes, const program::Program& program, const BatchLayout& layout);
  std::int64_t inputs = 0;  ///< how many of them have a device here
  std::int64_t firstReplica = 0;
  std::int64_t replicas = 0;
};

/// Every element of the queue is one micro-batch for the replicas that share inputs.
class InfeedFeed : public runtime::HostFeed {
 public:
  InfeedFeed(data::InfeedQueue& queue,
             const BatchLayout& layout,
             std::optional<FeedShare> share = std::nullopt);
  const void* take(std::int32_t input, std::int64_t microBatch) override;
  void interrupt() override { queue_.interrupt(); }
  /// With a share: dequeues what the call has left, so that all processes go on with the same
  /// element, and returns a digest of samples of all elements of the call.
  std::uint64_t finish();

 private:
  /// An element that is kept until all replicas of its group have taken all of its tensors.
  struct Element {
    std::vector<HostTensor> tensors;
    std::int64_t takes = 0;  // takes that are still missing
  };

  std::int64_t takesOf(std::int64_t number, std::size_t tensors) const;
  void dequeue();

  data::InfeedQueue& queue_;
  BatchLayout layout_;
  std::optional<FeedShare> share_;
  std::mutex mutex_;  // guards the members below; each replica and input has its own lane
  std::deque<Element> window_;
  std::int64_t first_ = 0;         // number of the first element of the window
  std::vector<HostTensor> inUse_;  // by input and replica: the tensor taken last
  Hasher samples_;
};

class OutfeedSink : public ResultSink {
 public:
  /// Defines what is enqueued: the outputs of the program by their names.
  OutfeedSink(data::OutfeedQueue& queue, const program::Program& program, std::int64_t replicas);
  void put(std::int32_t output, std::int64_t microBatch, const void* data) override;
  void interrupt() override { queue_.interrupt(); }
  std::vector<HostTensor> takeResults() override { return {}; }

 private:
  data::OutfeedQueue& queue_;
  std::int64_t replicas_;
};

/// Puts the results of all processes that share a model into the queue of each, when the step has
/// ended.
class SharedOutfeed : public SharedSink {
 public:
  /// Throws InvalidArgument if the queue has no room for the results of a call.
  SharedOutfeed(data::OutfeedQueue& queue,
                const program::Program& program,
                const std::vector<BatchLayout>& layouts,
                const Processes& processes,
                DataDigest data);
  std::vector<HostTensor> takeResults() override;

 private:
  data::OutfeedQueue& queue_;
};

}  // namespace sluice
