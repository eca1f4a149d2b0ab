// What the tests of phased execution and of remote memory share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/program/program.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/deep_gpt.h"
#include "tests/e2e/networks.h"

namespace sluice::testing {

inline constexpr std::int64_t kUpdates = 3;
inline constexpr std::int32_t kAccumulation = 4;

inline Options onOneDevice(std::vector<std::string> blocks = {"b0", "b1", "b2", "b3", "b4"}) {
  Options options;
  options.training.gradientAccumulation(kAccumulation);
  options.setExecutionStrategy(PipelinedExecution(std::vector<Stage>{Stage(std::move(blocks))}));
  return options;
}

/// Accumulators begin anew in every round; what they hold between rounds is nothing to keep.
inline std::string differenceBetweenRounds(Bits expected, Bits got) {
  const auto isAccumulator = [](const auto& variable) {
    return variable.first.ends_with(".accumulator");
  };
  std::erase_if(expected, isAccumulator);
  std::erase_if(got, isAccumulator);
  return difference(expected, got);
}

inline std::size_t mostBytes(const program::Program& program) {
  std::size_t most = 0;
  for (const program::DevicePlan& device : program.devices) {
    most = std::max(most, device.totalBytes());
  }
  return most;
}

/// A GPT of four layers in training.
class DeepTraining {
 public:
  explicit DeepTraining(const Options& options)
      : net_(4, 32, 2, 8), model_(trainingModel(net_, options, optim::AdamW(1e-2))) {}

  Bits bits(std::int64_t updates) {
    for (std::int64_t update = 0; update < updates; ++update) {
      const std::int64_t count = model_.microBatchesPerStep();
      model_.run(makeInputs(net_.inputs(), update * count, count));
    }
    return bitsOf(model_.session());
  }
  const program::Program& program() {
    model_.compile(makeInputs(net_.inputs(), 0, model_.microBatchesPerStep()));
    return model_.program();
  }
  auto& model() { return model_; }

 private:
  DeepGpt net_;
  Model model_;
};

inline Options deep(const Strategy& strategy, std::int64_t accumulation = 3) {
  Options options;
  options.training.gradientAccumulation(accumulation);
  options.setExecutionStrategy(strategy);
  return options;
}

}  // namespace sluice::testing
