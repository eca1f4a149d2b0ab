// Step: one call of a model while it runs. It has the inputs, the destination of the outputs, and
// what is counted at the end. It owns all of these, so that it can run in another thread and
// outlive the model.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "sluice/api/batch.h"
#include "sluice/program/program.h"
#include "sluice/runtime/engine.h"
#include "sluice/runtime/host_io.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice {

/// Where an input of a whole call has the data of a micro-batch, in bytes.
std::size_t inputOffset(const TensorType& whole,
                        const BatchLayout& layout,
                        std::int64_t microBatch);
/// Which of the micro-batches that a call returns this one is, or is added to.
std::int64_t outputSlot(const BatchLayout& layout, std::int64_t microBatch);

/// Cuts the tensors of a call into micro-batches without copying them.
class TensorFeed : public runtime::HostFeed {
 public:
  TensorFeed(std::vector<HostTensor> inputs, const BatchLayout& layout)
      : inputs_(std::move(inputs)), layout_(layout) {}
  const void* take(std::int32_t input, std::int64_t microBatch) override;
  bool mayBlock() const override { return false; }

 private:
  std::vector<HostTensor> inputs_;
  BatchLayout layout_;
};

/// Adds `data` to `sum`, both of `bytes` bytes, in their own type with one rounding per element.
void addTo(DType dtype, void* sum, const void* data, std::size_t bytes);

/// A sink that may have tensors for the caller after the step has ended.
class ResultSink : public runtime::HostSink {
 public:
  virtual std::vector<HostTensor> takeResults() = 0;
};

/// Joins the micro-batches of each output along the first dimension, or adds them up, as the layout
/// of that output says.
class TensorSink : public ResultSink {
 public:
  TensorSink(const program::Program& program, std::vector<BatchLayout> layouts);
  void put(std::int32_t output, std::int64_t microBatch, const void* data) override;
  bool mayBlock() const override { return false; }
  std::vector<HostTensor> takeResults() override { return std::move(results_); }

 protected:
  std::vector<BatchLayout> layouts_;  // by output
  std::vector<HostTensor> results_;
  std::vector<std::size_t> bytes_;
};

/// Watches one output, the loss, on its way to another sink.
class LossWatch : public runtime::HostSink {
 public:
  LossWatch(runtime::HostSink& sink, std::size_t output, TensorType type)
      : sink_(sink), output_(output), type_(std::move(type)) {}
  void put(std::int32_t output, std::int64_t microBatch, const void* data) override;
  /// A loss that stays on a device is not watched.
  device::Address roomFor(std::int32_t output, std::int64_t microBatch) override {
    return sink_.roomFor(output, microBatch);
  }
  bool mayBlock() const override { return sink_.mayBlock(); }
  void interrupt() override { sink_.interrupt(); }
  /// The first loss that was not finite; nullopt if there was none.
  std::optional<double> found() const;

 private:
  runtime::HostSink& sink_;
  std::size_t output_;
  TensorType type_;
  mutable std::mutex mutex_;  // each replica has its own lane
  std::optional<double> found_;
};

/// What a model counts over its calls, and the anchors of the last one.
struct StepCounts {
  std::int64_t updates = 0;
  std::int64_t microBatches = 0;  ///< over all replicas
  std::int64_t cycles = 0;        ///< cycles of the last call; 0: not counted
  std::vector<HostTensor> anchors;
  bool warnedOfLoss = false;  ///< whether it warned that the loss is not finite
};

/// Where an asynchronous call leaves its results.
struct StepResult {
  std::vector<HostTensor> outputs;
  /// Set before the turn is given back, so that the next caller that gets it knows that the call
  /// has ended.
  std::atomic<bool> ended{false};
};

class Step : public std::enable_shared_from_this<Step> {
 public:
  Step(std::unique_ptr<runtime::HostFeed> feed,
       std::unique_ptr<ResultSink> sink,
       std::shared_ptr<StepCounts> counts);

  /// Declares that this output is the loss: finish() warns, once per model, if it was not finite.
  /// Must be called before args().
  void watchLoss(std::size_t output, const TensorType& type);
  runtime::StepArgs args(std::int32_t rounds, std::uint64_t seed);
  /// Counts the step and separates the model's outputs from the anchors that follow them.
  void finish(std::int64_t updates, std::int64_t microBatches, std::size_t outputs);
  /// Used as StepArgs::times if the cycles of the step are counted.
  std::vector<runtime::TaskTime> times;
  std::vector<HostTensor> takeOutputs() { return std::move(outputs_); }

 private:
  void warnOfLoss();

  std::unique_ptr<runtime::HostFeed> feed_;
  std::unique_ptr<ResultSink> sink_;
  std::optional<LossWatch> watch_;  // watches the loss; not set: nothing does
  std::shared_ptr<StepCounts> counts_;
  std::vector<HostTensor> outputs_;
};

}  // namespace sluice
