#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/frontends/tensorflow/function_trace.h"
#include "sluice/frontends/tensorflow/loops.h"
#include "sluice/nn/block.h"

namespace sluice {
namespace {

using Devices = std::vector<std::vector<std::int32_t>>;

void requireCounts(const std::vector<PipelineStage>& stages, const PipelineOptions& options) {
  if (stages.size() < 2) {
    raise<InvalidArgument>("pipeline: at least two stages are needed, got {}", stages.size());
  }
  if (options.gradientAccumulationCount < 1) {
    raise<InvalidArgument>(
        "pipeline: gradientAccumulationCount must be given and be at least 1, got {}",
        options.gradientAccumulationCount);
  }
  if (options.repeatCount < 1 || options.batchSerializationIterations < 1) {
    raise<InvalidArgument>(
        "pipeline: repeatCount and batchSerializationIterations must be at least 1, got {} and {}",
        options.repeatCount,
        options.batchSerializationIterations);
  }
}

void requireModes(const PipelineOptions& options) {
  if (options.outfeedLoss && (!options.optimizerFunction || options.outfeed == nullptr)) {
    raise<InvalidArgument>("pipeline: outfeedLoss needs an optimizerFunction and an outfeed");
  }
  if (options.accumulateOutfeed &&
      (options.outfeed == nullptr || options.outfeed->mode() != data::OutfeedMode::All)) {
    raise<InvalidArgument>("pipeline: accumulateOutfeed needs an outfeed of mode All");
  }
  if (options.pipelineSchedule == PipelineSchedule::Interleaved &&
      options.recomputationMode == RecomputationMode::RecomputeAndBackpropagateInterleaved) {
    raise<InvalidArgument>(
        "pipeline: RecomputeAndBackpropagateInterleaved goes with the Grouped and the Sequential "
        "schedule, not with Interleaved");
  }
}

/// A device for every function of every stage.
Devices devicesOf(const std::vector<PipelineStage>& stages, const PipelineOptions& options) {
  const std::vector<StageDevices>& mapping = options.deviceMapping;
  if (!mapping.empty() && mapping.size() != stages.size()) {
    raise<InvalidArgument>(
        "pipeline: deviceMapping has {} entries for {} stages", mapping.size(), stages.size());
  }
  Devices devices;
  std::int32_t next = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::size_t functions = stages[s].functions().size();
    devices.emplace_back();
    for (std::size_t f = 0; f < functions && mapping.empty(); ++f) {
      devices.back().push_back(next++);
    }
    if (!mapping.empty()) {
      devices.back() = mapping[s].devices();
    }
    if (functions == 0 || devices.back().size() != functions) {
      raise<InvalidArgument>("pipeline: stage {} has {} functions and {} devices",
                             s,
                             functions,
                             devices.back().size());
    }
  }
  return devices;
}

void requireOneDevice(const Devices& devices, const PipelineOptions& options) {
  const bool one = std::ranges::all_of(devices, [&](const std::vector<std::int32_t>& stage) {
    return stage == std::vector{devices[0][0]};
  });
  if (options.batchSerializationIterations > 1 &&
      (!one || options.pipelineSchedule != PipelineSchedule::Sequential)) {
    raise<InvalidArgument>(
        "pipeline: batchSerializationIterations needs the Sequential schedule and all stages on "
        "one device");
  }
}

std::string blockName(std::size_t stage, std::size_t function, std::size_t functions) {
  return functions == 1 ? fmt::format("stage{}", stage)
                        : fmt::format("stage{}.{}", stage, function);
}

PipelineKind kindOf(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::Grouped:
      return PipelineKind::Grouped;
    case PipelineSchedule::Interleaved:
      return PipelineKind::Interleaved;
    case PipelineSchedule::Sequential:
      break;
  }
  return PipelineKind::Sequential;
}

PipelinedExecution strategyOf(const Devices& devices, PipelineSchedule schedule) {
  std::vector<Stage> stages;
  for (std::size_t s = 0; s < devices.size(); ++s) {
    std::vector<Stage> branches;
    for (std::size_t f = 0; f < devices[s].size(); ++f) {
      branches.emplace_back(blockName(s, f, devices[s].size()));
      branches.back().device(devices[s][f]);
    }
    stages.push_back(branches.size() == 1 ? branches[0] : Stage(ConcurrentStages(branches)));
  }
  return PipelinedExecution(std::move(stages)).schedule(kindOf(schedule));
}

TensorLocationSettings located(TensorLocationSettings settings, bool offChip, bool sharded) {
  if (offChip) {
    settings.useOnChipStorage(false);
  }
  if (sharded) {
    settings.useReplicatedTensorSharding(true);
  }
  return settings;
}

void configure(Options& target, const Devices& devices, const PipelineOptions& options) {
  if (target.executionStrategy() != PipelinedExecution()) {
    raise<InvalidArgument>(
        "pipeline: its stages are the execution strategy; the options of compile() may not have {}",
        target.executionStrategy().str());
  }
  target.setExecutionStrategy(strategyOf(devices, options.pipelineSchedule));
  if (options.recomputationMode != RecomputationMode::Auto) {
    target.recomputation(options.recomputationMode == RecomputationMode::RecomputeThenBackpropagate
                             ? Recomputation::Pipeline
                             : Recomputation::Standard);
  }
  if (options.continuousWeightUpdates) {
    target.continuousWeightUpdates(true);
  }
  TensorLocationOptions& at = target.tensorLocations;
  at.setOptimizerLocation(located(at.optimizer(), false, options.replicatedOptimizerStateSharding));
  at.setWeightLocation(
      located(at.weight(), options.offloadWeights, options.replicatedWeightSharding));
  at.setActivationLocation(located(at.activation(), options.offloadActivations, false));
  at.setAccumulatorLocation(
      located(at.accumulator(), options.offloadGradientAccumulationBuffers, false));
}

Tensors runStage(const PipelineStage& stage,
                 std::size_t number,
                 const std::vector<std::int32_t>& devices,
                 const Tensors& arguments) {
  Tensors outputs;
  for (std::size_t f = 0; f < devices.size(); ++f) {
    const nn::Block block(blockName(number, f, devices.size()), devices[f]);
    const Tensors own = stage.functions()[f](arguments);
    outputs.insert(outputs.end(), own.begin(), own.end());
  }
  return outputs;
}

/// The loss and how it is minimized. Its ops belong to the last stage.
OptimizerFunctionOutput optimizerOf(const OptimizerFunction& function,
                                    const Tensors& outputs,
                                    const std::string& block) {
  const nn::Block last(block);
  OptimizerFunctionOutput result = function(outputs);
  if (!result.optimizer.wrapper().empty()) {
    raise<InvalidArgument>(
        "pipeline: {} is for repeat(); a pipeline accumulates and averages by itself: return the "
        "optimizer alone",
        result.optimizer.wrapper());
  }
  if (!isFloat(result.loss.dtype()) || result.loss.shape().rank() != 0) {
    raise<InvalidArgument>("pipeline: the optimizerFunction's loss must be a float scalar, got {}",
                           result.loss.type().str());
  }
  return result;
}

}  // namespace

Tensors pipeline(const std::vector<PipelineStage>& stages, const PipelineOptions& options) {
  FunctionTrace& trace = FunctionTrace::current("pipeline");
  trace.begin("pipeline");
  requireCounts(stages, options);
  requireModes(options);
  const Devices devices = devicesOf(stages, options);
  requireOneDevice(devices, options);
  FunctionPlan& plan = trace.plan;
  plan.perUpdate = options.gradientAccumulationCount * options.batchSerializationIterations;
  plan.microBatches = plan.perUpdate * options.repeatCount;
  plan.accumulation =
      AccumulationOptions{.offloadWeightUpdateVariables = options.offloadWeightUpdateVariables,
                          .dtype = options.gradientAccumulationDtype,
                          .reduction = options.reductionMethod};
  plan.configure = [devices, options](Options& target) { configure(target, devices, options); };

  Tensors values = options.inputs;
  const Tensors items = trace.take(options.infeed);
  values.insert(values.end(), items.begin(), items.end());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    values = runStage(stages[s], s, devices[s], values);
  }
  if (options.optimizerFunction) {
    const std::string last = blockName(stages.size() - 1, 0, devices.back().size());
    const OptimizerFunctionOutput result = optimizerOf(options.optimizerFunction, values, last);
    trace.minimize(result.optimizer, result.loss);
    values = options.outfeedLoss ? Tensors{result.loss} : values;
  }
  if (options.outfeed != nullptr) {
    trace.enqueue(*options.outfeed, values, {});
    plan.outfeedSum = options.accumulateOutfeed ? plan.perUpdate : 1;
  } else if (!options.optimizerFunction) {
    raise<InvalidArgument>(
        "pipeline: nothing comes out of it without an outfeed or an optimizerFunction");
  }
  return trace.end();
}

}  // namespace sluice
