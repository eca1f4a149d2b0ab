// The strategies that every kind of device runs, for tests that compare their bits. The networks
// have the blocks b0 to b4.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/e2e/remote_support.h"

namespace sluice::testing {

struct StrategyCase {
  std::string name;
  std::function<void(Options&)> set;
};
inline void PrintTo(const StrategyCase& strategyCase, std::ostream* out) {
  *out << strategyCase.name;
}

inline std::vector<Stage> threeStages() {
  return {Stage("b0", "b1"), "b2", Stage("b3", "b4")};
}

/// Every strategy, and what may go with it.
inline std::vector<StrategyCase> strategyCases() {
  std::vector<StrategyCase> all = {
      {"OneDevice", [](Options&) {}},
      {"Sharded", [](Options& o) { o.setExecutionStrategy(ShardedExecution(threeStages())); }},
      {"Replicated", [](Options& o) { o.replicationFactor(2); }},
      {"Recomputed",
       [](Options& o) {
         o.setExecutionStrategy(PipelinedExecution(threeStages()));
         o.recomputation(Recomputation::Pipeline);
       }},
      {"PipelinedReplicas",
       [](Options& o) {
         o.setExecutionStrategy(PipelinedExecution(threeStages())).replicationFactor(2);
       }},
      {"StateInRemoteMemory",
       [](Options& o) {
         o.setExecutionStrategy(PipelinedExecution(threeStages()));
         o.tensorLocations.setOptimizerLocation(TensorLocationSettings().useOnChipStorage(false));
         o.tensorLocations.setActivationLocation(TensorLocationSettings().useOnChipStorage(false));
       }},
      {"ShardedWeights",
       [](Options& o) {
         o.replicationFactor(2);
         o.tensorLocations.setWeightLocation(
             TensorLocationSettings().useReplicatedTensorSharding(true));
       }},
      {"Barriers",
       [](Options& o) {
         o.setExecutionStrategy(PipelinedExecution(threeStages())).barriers(true);
       }},
      {"SerialPhases",
       [](Options& o) {
         o.setExecutionStrategy(
             SerialPhasedExecution(std::vector<Phase>{"b0", "b1", "b2", "b3", "b4"}));
       }},
      {"ParallelPhases",
       [](Options& o) {
         o.setExecutionStrategy(ParallelPhasedExecution(
             std::vector<Phase>{Phase("b0", "b1"), Phase("b2"), Phase("b3", "b4")}));
       }},
  };
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "interleaved", "grouped"}) {
    all.push_back({fmt::format("Pipelined{}", all.size()), [schedule](Options& o) {
                     o.setExecutionStrategy(PipelinedExecution(threeStages()).schedule(schedule));
                   }});
  }
  return all;
}

/// All variables of the first replica after a few updates.
template <class Net>
Bits trained(const Options& options) {
  Net net;
  auto model = trainingModel(net, options.clone(), optim::AdamW(0.01));
  const std::int64_t perRun = model.microBatchesPerStep() * options.replicationFactor();
  for (std::int64_t run = 0; run < kUpdates / options.deviceIterations(); ++run) {
    model.run(makeInputs(net.inputs(), run * perRun, perRun));
  }
  return bitsOf(model.session());
}

/// Doubles on the host.
struct WithHostOp : nn::Module {
  nn::Linear fc{*this, "fc", 4, 4};
  nn::CPU twice{[](std::span<const HostTensor> x) {
                  HostTensor y = x[0].clone();
                  for (std::int64_t i = 0; i < y.shape().elements(); ++i) {
                    y.set(i, 2 * x[0].at(i));
                  }
                  return std::vector<HostTensor>{y};
                },
                "twice"};

  nn::Tensor forward(nn::Tensor x) {
    return nn::relu(twice({fc(x)}, {{DType::F32, Shape{2, 4}}})[0]);
  }
};

/// What a model with such an op gives on this device, and its plan.
inline std::pair<HostTensor, std::string> withHostOp(const char* device) {
  WithHostOp net;
  auto model = inferenceModel(net, Options().device(device).randomSeed(3));
  const HostTensor y = model(HostTensor::of<float>({2, 4}, {1, 2, 3, 4, -1, -2, -3, -4}));
  return {y, model.explain()};
}

}  // namespace sluice::testing
