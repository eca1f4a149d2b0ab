// FunctionSink: passes results from the steps of a compiled function to its outfeed queue.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/api/step.h"
#include "sluice/data/queues.h"

namespace sluice {

class FunctionSink : public ResultSink {
 public:
  /// Takes the first outputs, one per type; later outputs are dropped, and so are all outputs if
  /// there is no queue. `sumOver` consecutive micro-batches of a replica are added up and put into
  /// the queue as one.
  FunctionSink(data::OutfeedQueue* queue,
               const data::Types& types,
               std::int64_t replicas,
               std::int64_t sumOver);
  void put(std::int32_t output, std::int64_t microBatch, const void* data) override;
  bool mayBlock() const override { return queue_ != nullptr; }
  void interrupt() override {
    if (queue_ != nullptr) {
      queue_->interrupt();
    }
  }
  std::vector<HostTensor> takeResults() override { return {}; }

 private:
  data::OutfeedQueue* queue_;
  std::size_t outputs_;
  std::int64_t replicas_;
  std::int64_t sumOver_;
  std::vector<HostTensor> sums_;  // by output and replica; each is written by one lane only
};

}  // namespace sluice
