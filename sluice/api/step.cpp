#include "sluice/api/step.h"

#include <algorithm>
#include <cstring>

#include "sluice/base/log.h"
#include "sluice/ops/elementwise.h"
#include "sluice/runtime/non_finite.h"

namespace sluice {

std::size_t inputOffset(const TensorType& whole,
                        const BatchLayout& layout,
                        std::int64_t microBatch) {
  if (whole.shape.rank() == 0) {
    return 0;  // the same for all
  }
  const auto bytes = whole.bytes() / static_cast<std::size_t>(layout.inputFactor());
  const std::int64_t part = microBatch / layout.replicationFactor * layout.inputReplicas() +
                            layout.inputOf(microBatch % layout.replicationFactor);
  return bytes * static_cast<std::size_t>(part);
}

std::int64_t outputSlot(const BatchLayout& layout, std::int64_t microBatch) {
  const std::int64_t replica = microBatch % layout.replicationFactor;
  const std::int64_t inReplica = microBatch / layout.replicationFactor;
  return inReplica / layout.outputDivisor() * layout.replicationFactor + replica;
}

const void* TensorFeed::take(std::int32_t input, std::int64_t microBatch) {
  const HostTensor& tensor = inputs_[static_cast<std::size_t>(input)];
  return tensor.bytes() + inputOffset(tensor.type(), layout_, microBatch);
}

TensorSink::TensorSink(const program::Program& program, std::vector<BatchLayout> layouts)
    : layouts_(std::move(layouts)) {
  for (std::size_t o = 0; o < program.drains.size(); ++o) {
    const TensorType& type = program.drains[o].type;
    results_.emplace_back(TensorType{type.dtype, layouts_[o].outputShape(type.shape)});
    bytes_.push_back(type.bytes());
  }
}

void TensorSink::put(std::int32_t output, std::int64_t microBatch, const void* data) {
  const auto o = static_cast<std::size_t>(output);
  const BatchLayout& layout = layouts_[o];
  const std::int64_t inReplica = microBatch / layout.replicationFactor;
  const std::int64_t slot = outputSlot(layout, microBatch);
  std::byte* to = results_[o].bytes() + bytes_[o] * static_cast<std::size_t>(slot);
  if (layout.outputMode == OutputMode::Sum && inReplica > 0) {
    addTo(results_[o].dtype(), to, data, bytes_[o]);
  } else if (bytes_[o] > 0) {
    std::memcpy(to, data, bytes_[o]);
  }
}

void addTo(DType dtype, void* sum, const void* data, std::size_t bytes) {
  dispatch(dtype, [&]<class T>(T) {
    auto* out = static_cast<T*>(sum);
    const auto* in = static_cast<const T*>(data);
    for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
      if constexpr (std::is_same_v<T, bool>) {
        out[i] = out[i] || in[i];
      } else {
        out[i] = ops::narrow<T>(ops::widen(out[i]) + ops::widen(in[i]));
      }
    }
  });
}

Step::Step(std::unique_ptr<runtime::HostFeed> feed,
           std::unique_ptr<ResultSink> sink,
           std::shared_ptr<StepCounts> counts)
    : feed_(std::move(feed)), sink_(std::move(sink)), counts_(std::move(counts)) {}

runtime::StepArgs Step::args(std::int32_t rounds, std::uint64_t seed) {
  return {.feed = *feed_,
          .sink = watch_ ? static_cast<runtime::HostSink&>(*watch_) : *sink_,
          .rounds = rounds,
          .seed = seed,
          .firstMicroBatch = counts_->microBatches,
          .owner = shared_from_this()};
}

void Step::finish(std::int64_t updates, std::int64_t microBatches, std::size_t outputs) {
  counts_->updates += updates;
  counts_->microBatches += microBatches;
  std::vector<HostTensor> all = sink_->takeResults();
  const auto split = all.begin() + static_cast<std::ptrdiff_t>(std::min(outputs, all.size()));
  outputs_.assign(all.begin(), split);
  counts_->anchors.assign(split, all.end());
  warnOfLoss();
}

void LossWatch::put(std::int32_t output, std::int64_t microBatch, const void* data) {
  if (static_cast<std::size_t>(output) == output_) {
    const runtime::FiniteCheck check = runtime::checkFinite(type_, data);
    const std::scoped_lock lock(mutex_);
    if (!check.finite() && !found_) {
      HostTensor loss(type_);
      std::memcpy(loss.bytes(), data, loss.byteCount());
      found_ = loss.at(check.first());
    }
  }
  sink_.put(output, microBatch, data);
}

std::optional<double> LossWatch::found() const {
  const std::scoped_lock lock(mutex_);
  return found_;
}

void Step::watchLoss(std::size_t output, const TensorType& type) {
  if (!counts_->warnedOfLoss) {
    watch_.emplace(*sink_, output, type);
  }
}

void Step::warnOfLoss() {
  if (const std::optional<double> loss = watch_ ? watch_->found() : std::nullopt) {
    counts_->warnedOfLoss = true;
    log::warn(
        "model",
        "the loss is {} after {} updates; Model::findFirstNonFinite, called with the inputs of a "
        "step, names the op that makes the first such number (said once per model)",
        *loss,
        counts_->updates);
  }
}

}  // namespace sluice
