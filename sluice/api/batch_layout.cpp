#include <array>
#include <vector>

#include <fmt/format.h>

#include "sluice/api/batch.h"
#include "sluice/api/options.h"
#include "sluice/base/error.h"

namespace sluice {
namespace {

void requireRange(std::string_view what, std::int64_t value, std::int64_t count) {
  if (value < 0 || value >= count) {
    raise<InvalidArgument>("batch layout: {} {} is not in [0, {})", what, value, count);
  }
}

OutputMode resolvedMode(OutputMode mode, RunKind kind) {
  if (mode != OutputMode::Default) {
    return mode;
  }
  return kind == RunKind::Training ? OutputMode::Final : OutputMode::All;
}

void requireGroups(const BatchLayout& layout) {
  const std::int64_t size = layout.inputGroupSize;
  if (size > layout.replicationFactor || layout.replicationFactor % size != 0) {
    raise<InvalidArgument>(
        "inputReplicaGrouping has groups of {}, which must divide replicationFactor {}",
        size,
        layout.replicationFactor);
  }
}

void requirePeriod(const BatchLayout& layout) {
  const std::int64_t total = layout.microBatches();
  if (layout.outputMode == OutputMode::EveryN &&
      (layout.outputPeriod > total || total % layout.outputPeriod != 0)) {
    raise<InvalidArgument>(
        "outputMode EveryN has period {}, which must divide the {} micro-batches of a call "
        "(deviceIterations {} x gradientAccumulation {})",
        layout.outputPeriod,
        total,
        layout.deviceIterations,
        layout.gradientAccumulation);
  }
}

std::string_view describe(OutputMode mode) {
  constexpr std::array<std::string_view, 5> kText = {"every micro-batch",
                                                     "the last micro-batch of each period",
                                                     "the last micro-batch of each replica",
                                                     "the sum over the micro-batches of a replica",
                                                     ""};
  return kText[static_cast<std::size_t>(mode)];
}

}  // namespace

BatchLayout BatchLayout::of(const Options& options, RunKind kind) {
  const std::int64_t accumulation = options.training.gradientAccumulation();
  if (kind == RunKind::Inference && accumulation != 1) {
    raise<InvalidArgument>(
        "an inference model accumulates no gradients: gradientAccumulation must be 1, got {}{}",
        accumulation,
        options.executionStrategy().kind() == parallel::StrategyKind::Pipelined
            ? "; use deviceIterations to fill the pipeline with several micro-batches per call"
            : "");
  }
  BatchLayout layout{.deviceIterations = options.deviceIterations(),
                     .gradientAccumulation = accumulation,
                     .replicationFactor = options.replicationFactor(),
                     .inputGroupSize = options.batch().inputGroupSize,
                     .inputGroupType = options.batch().inputGroupType,
                     .outputMode = resolvedMode(options.outputMode(), kind),
                     .outputPeriod = options.outputPeriod()};
  std::int64_t product = 0;
  if (__builtin_mul_overflow(layout.microBatches(), layout.replicationFactor, &product)) {
    raise<InvalidArgument>("a call has too many micro-batches: {}", layout.factors());
  }
  requireGroups(layout);
  requirePeriod(layout);
  return layout;
}

BatchLayout BatchLayout::withOutput(OutputMode mode, std::int64_t period) const {
  BatchLayout layout = *this;
  layout.outputMode = mode;
  layout.outputPeriod = period;
  requirePeriod(layout);
  return layout;
}

BatchLayout BatchLayout::withCounts(const CallShape& shape) const {
  if (shape.deviceIterations < 1 || shape.gradientAccumulation < 1) {
    raise<InvalidArgument>("a call has at least one round of one micro-batch, got {} of {}",
                           shape.deviceIterations,
                           shape.gradientAccumulation);
  }
  BatchLayout layout = *this;
  layout.deviceIterations = shape.deviceIterations;
  layout.gradientAccumulation = shape.gradientAccumulation;
  requirePeriod(layout);
  return layout;
}

std::int64_t BatchLayout::inputOf(std::int64_t replica) const {
  return inputGroupType == CommGroupType::Orthogonal ? replica % inputReplicas()
                                                     : replica / inputGroupSize;
}

std::int64_t BatchLayout::index(std::int64_t iteration,
                                std::int64_t accumulation,
                                std::int64_t replica,
                                std::int64_t row) const {
  requireRange("iteration", iteration, deviceIterations);
  requireRange("accumulation", accumulation, gradientAccumulation);
  requireRange("replica", replica, replicationFactor);
  requireRange("row", row, microBatch);
  const std::int64_t step = iteration * gradientAccumulation + accumulation;
  return (step * inputReplicas() + inputOf(replica)) * microBatch + row;
}

std::int64_t BatchLayout::outputDivisor() const {
  switch (outputMode) {
    case OutputMode::EveryN:
      return outputPeriod;
    case OutputMode::Final:
    case OutputMode::Sum:
      return microBatches();
    case OutputMode::All:
    case OutputMode::Default:
      break;
  }
  return 1;
}

std::int64_t BatchLayout::outputMicroBatches() const {
  return microBatches() / outputDivisor() * replicationFactor;
}

Shape BatchLayout::outputShape(const Shape& perMicroBatch) const {
  const std::int64_t count = outputMicroBatches();
  std::vector<std::int64_t> dims = perMicroBatch.dims();
  if (!dims.empty()) {
    dims[0] *= count;
  } else if (count > 1) {
    dims.push_back(count);
  }
  return Shape(std::move(dims));
}

std::int64_t BatchLayout::microBatchOf(std::string_view input, const Shape& shape) const {
  if (shape.rank() == 0) {
    return 1;
  }
  const std::int64_t factor = inputFactor();
  if (shape[0] % factor != 0) {
    raise<InvalidArgument>("{} has shape {}: its first dimension must be a multiple of {} ({})",
                           input,
                           shape.str(),
                           factor,
                           factors());
  }
  return shape[0] / factor;
}

void BatchLayout::requireInputElements(std::string_view input,
                                       std::int64_t perMicroBatch,
                                       std::int64_t found) const {
  const std::int64_t expected = perMicroBatch * inputFactor();
  if (found != expected) {
    raise<InvalidArgument>("input '{}': expected {} elements ({} per micro-batch x {}), got {}",
                           input,
                           expected,
                           perMicroBatch,
                           factors(),
                           found);
  }
}

void BatchLayout::requireOutputElements(std::string_view output,
                                        std::int64_t perMicroBatch,
                                        std::int64_t found) const {
  const std::int64_t expected = perMicroBatch * outputMicroBatches();
  if (found != expected) {
    raise<InvalidArgument>(
        "output '{}': expected {} elements ({} per micro-batch x deviceIterations {} x "
        "gradientAccumulation {} x replicationFactor {} / {} for outputMode {}), got {}",
        output,
        expected,
        perMicroBatch,
        deviceIterations,
        gradientAccumulation,
        replicationFactor,
        outputDivisor(),
        name(outputMode),
        found);
  }
}

std::string BatchLayout::factors() const {
  std::string text = fmt::format(
      "deviceIterations {} x gradientAccumulation {}", deviceIterations, gradientAccumulation);
  if (replicationFactor > 1) {
    text += fmt::format(" x replicationFactor {}", replicationFactor);
  }
  if (inputGroupSize > 1) {
    text += fmt::format(" / input groups of {}", inputGroupSize);
  }
  return text;
}

std::string BatchLayout::explain() const {
  const std::int64_t rows = rowsPerCall();
  std::string text = fmt::format(
      "A call takes {} rows: micro-batch {} x {}\n"
      "  micro-batch           {:>8}  rows that an op sees\n"
      "  gradientAccumulation  {:>8}  micro-batches per weight update of a replica\n"
      "  deviceIterations      {:>8}  weight updates, or micro-batches of inference\n"
      "  replicationFactor     {:>8}  copies of the model\n",
      rows,
      microBatch,
      factors(),
      microBatch,
      gradientAccumulation,
      deviceIterations,
      replicationFactor);
  if (inputGroupSize > 1) {
    text += fmt::format("  input groups of       {:>8}  replicas with the same rows ({})\n",
                        inputGroupSize,
                        name(inputGroupType));
  }
  text += fmt::format(
      "  a weight update sees  {:>8}  rows\n"
      "Row of an input: ((iteration x {} + accumulation) x {} + {}) x {} + row\n"
      "outputMode {}: {} comes back, {} rows of an output with {} per micro-batch\n",
      rowsPerUpdate(),
      gradientAccumulation,
      inputReplicas(),
      inputGroupSize > 1 ? "group of the replica" : "replica",
      microBatch,
      name(outputMode),
      describe(outputMode),
      microBatch * outputMicroBatches(),
      microBatch);
  return text;
}

}  // namespace sluice
