// The two ends of a step that runs on queues: the engine takes micro-batches from an InfeedQueue
// and puts results into an OutfeedQueue while it runs.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "sluice/api/batch.h"
#include "sluice/api/step.h"
#include "sluice/data/queues.h"
#include "sluice/program/program.h"

namespace sluice {

/// Every element of the queue is one micro-batch for the replicas that share inputs.
class InfeedFeed : public runtime::HostFeed {
 public:
  InfeedFeed(data::InfeedQueue& queue, const BatchLayout& layout);
  const void* take(std::int32_t input, std::int64_t microBatch) override;
  void interrupt() override { queue_.interrupt(); }

 private:
  /// An element that is kept until all replicas of its group have taken all of its tensors.
  struct Element {
    std::vector<HostTensor> tensors;
    std::int64_t takes = 0;  // takes that are still missing
  };

  data::InfeedQueue& queue_;
  BatchLayout layout_;
  std::mutex mutex_;  // guards the members below; each replica and input has its own lane
  std::deque<Element> window_;
  std::int64_t first_ = 0;         // number of the first element of the window
  std::vector<HostTensor> inUse_;  // by input and replica: the tensor taken last
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

}  // namespace sluice
