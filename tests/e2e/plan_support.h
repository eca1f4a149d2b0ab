// Plans by brute force: every named plan is compiled and simulated as a model of its own, through
// the public functions. What Model::findPlan finds is compared with the best of them.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/api/plan_search.h"
#include "sluice/program/program.h"
#include "sluice/sluice.h"

namespace sluice::testing {

inline constexpr std::size_t kKiB = 1024;

inline Options planning(std::size_t memory, std::int64_t microBatches, bool training) {
  Options options = Options::defaults();
  options.device("sim@ipu2").enforceIpuRules(false).memoryPerDevice(memory);
  options.showCompilationProgressBar(false);
  if (training) {
    options.training.gradientAccumulation(microBatches);
  } else {
    options.deviceIterations(microBatches);
  }
  return options;
}

template <class Net>
PlanReport found(const Options& options, bool training, const PlanSettings& settings) {
  Net net;
  if (training) {
    return trainingModel(net, options, optim::AdamW(0.01)).findPlan(Net::inputs(), settings);
  }
  return inferenceModel(net, options).findPlan(Net::inputs(), settings);
}

/// A plan as a user would get it from Options.
struct Compiled {
  double seconds = 0;
  std::vector<PlannedBytes> devices;
  std::size_t remote = 0;
};

inline Compiled compiledBy(Model& model, const std::vector<TensorType>& inputs) {
  model.compile(std::span<const TensorType>(inputs));
  Compiled made{.seconds = model.simulateStep().seconds,
                .remote = model.program().remote.totalBytes()};
  for (const program::DevicePlan& device : model.program().devices) {
    made.devices.push_back({device.stateBytes, device.transientBytes, device.ownBytes});
  }
  return made;
}

/// Nothing if it does not fit or is not possible.
template <class Net>
std::optional<Compiled> compiled(Options options, bool training, const PlanChoice& choice) {
  choice.applyTo(options);
  Net net;
  try {
    if (training) {
      auto model = trainingModel(net, options, optim::AdamW(0.01));
      return compiledBy(model, Net::inputs());
    }
    auto model = inferenceModel(net, options);
    return compiledBy(model, Net::inputs());
  } catch (const Error&) {
    return std::nullopt;
  }
}

inline PlanSpace spaceOf(const Options& options, bool training, std::int64_t devices) {
  const BatchLayout layout =
      BatchLayout::of(options, training ? RunKind::Training : RunKind::Inference);
  return {.devices = devices, .training = training, .shared = layout.microBatches()};
}

/// The seconds of the fastest named plan that fits, by brute force.
template <class Net>
std::optional<double> bruteForce(const Options& options, bool training, std::int64_t devices) {
  std::optional<double> best;
  for (const auto& family : namedPlans(spaceOf(options, training, devices))) {
    for (const PlanChoice& choice : family) {
      const std::optional<Compiled> made = compiled<Net>(options, training, choice);
      if (made && (!best || made->seconds < *best)) {
        best = made->seconds;
      }
    }
  }
  return best;
}

/// Both searches against brute force, and the best plan against its compiled program.
template <class Net>
void expectBest(std::size_t memory, std::int64_t devices, bool training) {
  SCOPED_TRACE(::testing::Message() << memory << " bytes, " << devices << " devices");
  const Options options = planning(memory, 4, training);
  const std::optional<double> best = bruteForce<Net>(options, training, devices);
  for (const bool exhaustive : {false, true}) {
    const PlanReport report = found<Net>(
        options, training, {.devices = devices, .seconds = 1e6, .exhaustive = exhaustive});
    EXPECT_TRUE(report.complete);
    ASSERT_EQ(report.best.has_value(), best.has_value());
    for (const TriedPlan& tried : report.tried) {
      if (tried.seconds > 0) {
        EXPECT_GE(tried.seconds, report.bound) << tried.choice.str();
      }
    }
    if (!best) {
      continue;
    }
    EXPECT_LE(report.best->seconds, *best) << report.best->choice.str();
    EXPECT_GT(report.bound, 0);
    EXPECT_LE(report.bound, *best);
    const std::optional<Compiled> made = compiled<Net>(options, training, report.best->choice);
    ASSERT_TRUE(made) << report.best->choice.str();
    EXPECT_EQ(made->seconds, report.best->seconds);
    EXPECT_EQ(made->devices, report.best->devices);
    EXPECT_EQ(made->remote, report.best->remoteBytes);
    EXPECT_LE(report.best->largestDevice(), memory);
  }
}

/// Without a limit of memory, nothing that is compiled by itself is faster than the bound, and the
/// bound does not depend on what the search tries.
template <class Net>
void expectBound(std::int64_t devices, bool training) {
  SCOPED_TRACE(::testing::Message() << devices << " devices, training " << training);
  const Options options = planning(0, 4, training);
  const PlanReport report =
      found<Net>(options, training, {.devices = devices, .seconds = 1e6, .exhaustive = true});
  const std::optional<double> best = bruteForce<Net>(options, training, devices);
  ASSERT_TRUE(best);
  EXPECT_GT(report.bound, 0);
  EXPECT_LE(report.bound, *best);
  const PlanReport hasty = found<Net>(options, training, {.devices = devices, .seconds = 0});
  EXPECT_LE(hasty.bound, *best);
}

}  // namespace sluice::testing
