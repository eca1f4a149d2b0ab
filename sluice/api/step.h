// Step: one call of a model under way: its inputs, where its outputs go, and what is counted when
// it has ended. It owns all of that, so that it can run in another thread and outlive the model.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "sluice/api/batch_layout.h"
#include "sluice/program/program.h"
#include "sluice/runtime/engine.h"
#include "sluice/runtime/host_io.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice {

/// The tensors of a call, cut into micro-batches without a copy.
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

/// Adds tensors of `bytes` bytes, in their own type with one rounding per element.
void addTo(DType dtype, void* sum, const void* data, std::size_t bytes);

/// A sink that may have tensors for the caller when the step has ended.
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

 private:
  std::vector<BatchLayout> layouts_;  // by output
  std::vector<HostTensor> results_;
  std::vector<std::size_t> bytes_;
};

/// Looks at one output, the loss, on its way to a sink: queues get it, too.
class LossWatch : public runtime::HostSink {
 public:
  LossWatch(runtime::HostSink& sink, std::size_t output, TensorType type)
      : sink_(sink), output_(output), type_(std::move(type)) {}
  void put(std::int32_t output, std::int64_t microBatch, const void* data) override;
  bool mayBlock() const override { return sink_.mayBlock(); }
  void interrupt() override { sink_.interrupt(); }
  /// The first number that was not finite.
  std::optional<double> found() const;

 private:
  runtime::HostSink& sink_;
  std::size_t output_;
  TensorType type_;
  mutable std::mutex mutex_;  // replicas have lanes of their own
  std::optional<double> found_;
};

/// What a model counts over its calls, and the anchors of the last one.
struct StepCounts {
  std::int64_t updates = 0;
  std::int64_t microBatches = 0;  ///< of all replicas
  std::int64_t cycles = 0;        ///< of the last call; 0: not counted
  std::vector<HostTensor> anchors;
  bool warnedOfLoss = false;  ///< that it is not finite
};

class Step : public std::enable_shared_from_this<Step> {
 public:
  Step(std::unique_ptr<runtime::HostFeed> feed,
       std::unique_ptr<ResultSink> sink,
       std::shared_ptr<StepCounts> counts);

  /// This output is the loss: finish() warns, once per model, if it was not finite. Before args().
  void watchLoss(std::size_t output, const TensorType& type);
  runtime::StepArgs args(std::int32_t rounds, std::uint64_t seed);
  /// Counts the step and separates the model's outputs from the anchors behind them.
  void finish(std::int64_t updates, std::int64_t microBatches, std::size_t outputs);
  /// For StepArgs::times of a step whose cycles are counted.
  std::vector<runtime::TaskTime> times;
  std::vector<HostTensor> takeOutputs() { return std::move(outputs_); }

  /// The thread of an asynchronous step tells it before it gives the turn back, so that whoever
  /// gets the turn next knows.
  void end() { ended_.store(true); }
  bool hasEnded() const { return ended_.load(); }

 private:
  void warnOfLoss();

  std::unique_ptr<runtime::HostFeed> feed_;
  std::unique_ptr<ResultSink> sink_;
  std::optional<LossWatch> watch_;  // of the loss
  std::shared_ptr<StepCounts> counts_;
  std::vector<HostTensor> outputs_;
  std::atomic<bool> ended_{false};
};

}  // namespace sluice
