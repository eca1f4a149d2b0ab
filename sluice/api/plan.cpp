// The plans of model.h as values: text, and what they set.
#include <algorithm>

#include <fmt/format.h>

#include "sluice/api/model.h"

namespace sluice {
namespace {

constexpr std::string_view kOffChip = "TensorLocationSettings().useOnChipStorage(";

/// A strategy as C++ writes it: `.` is `::` after the name of a type, and lists have braces.
std::string inCpp(std::string text) {
  for (const std::string_view type :
       {"Execution.automatic", "Phase.automatic", "Liveness.", "PhaseOrder.", "IoSchedule."}) {
    for (std::size_t at = text.find(type); at != std::string::npos; at = text.find(type, at + 1)) {
      text.replace(at + type.find('.'), 1, "::");
    }
  }
  std::ranges::replace(text, '[', '{');
  std::ranges::replace(text, ']', '}');
  return text;
}

/// The setters of locations that a choice needs.
std::vector<std::string> locationSetters(const PlanChoice& choice) {
  std::vector<std::string> setters;
  if (choice.optimizerOffChip) {
    setters.emplace_back("setOptimizerLocation");
  }
  if (choice.weightsOffChip) {
    setters.emplace_back("setWeightLocation");
    setters.emplace_back("setAccumulatorLocation");
  }
  return setters;
}

}  // namespace

void PlanChoice::applyTo(Options& options) const {
  if (replicas > 1) {
    options.replicationFactor(replicas);
    if (training) {
      options.training.gradientAccumulation(microBatches);
    } else {
      options.deviceIterations(microBatches);
    }
  }
  options.setExecutionStrategy(strategy);
  options.recomputation(recomputation);
  const TensorLocationSettings off = TensorLocationSettings().useOnChipStorage(false);
  if (optimizerOffChip) {
    options.tensorLocations.setOptimizerLocation(off);
  }
  if (weightsOffChip) {
    options.tensorLocations.setWeightLocation(off).setAccumulatorLocation(off);
  }
}

std::string PlanChoice::str() const {
  std::string text = replicas > 1 ? fmt::format("{} replicas of ", replicas) : "";
  const std::int32_t devices = strategy.automaticDevices();
  if (devices == 1) {
    text += "one device";
  } else if (devices > 1) {
    const bool pipelined = strategy.kind() == parallel::StrategyKind::Pipelined;
    text += pipelined ? fmt::format("{}pipeline of {} devices, {}",
                                    replicas > 1 ? "a " : "",
                                    devices,
                                    schedule::name(strategy.schedule()))
                      : fmt::format("{} devices one after the other", devices);
    text += strategy.stagesPerDevice() > 1
                ? fmt::format(", {} stages each", strategy.stagesPerDevice())
                : "";
    text += strategy.shares().empty() ? "" : ", shifted cut";
  } else if (strategy.automaticPhases() > 0) {
    text += fmt::format("{} phases {}{}",
                        strategy.automaticPhases(),
                        strategy.kind() == parallel::StrategyKind::ParallelPhased ? "on two devices"
                                                                                  : "on one device",
                        strategy.liveness() == Liveness::AlwaysLive
                            ? ""
                            : fmt::format(", {}", name(strategy.liveness())));
  } else {
    text += strategy.str();
  }
  if (recomputation != Recomputation::None) {
    text += fmt::format(", recomputation {}", name(recomputation));
  }
  if (weightsOffChip) {
    text += optimizerOffChip ? ", all state off chip" : ", weights off chip";
  } else if (optimizerOffChip) {
    text += ", optimizer state off chip";
  }
  return text;
}

std::vector<std::string> PlanChoice::cppLines() const {
  std::vector<std::string> lines;
  if (replicas > 1) {
    lines.push_back(fmt::format("options.replicationFactor({});", replicas));
    lines.push_back(fmt::format("options.{}({});",
                                training ? "training.gradientAccumulation" : "deviceIterations",
                                microBatches));
  }
  lines.push_back(fmt::format("options.setExecutionStrategy({});", inCpp(strategy.str())));
  if (recomputation != Recomputation::None) {
    lines.push_back(fmt::format("options.recomputation(Recomputation::{});", name(recomputation)));
  }
  for (const std::string& setter : locationSetters(*this)) {
    lines.push_back(fmt::format("options.tensorLocations.{}({}false));", setter, kOffChip));
  }
  return lines;
}

std::vector<std::string> PlanChoice::pythonLines() const {
  std::string chosen = fmt::format("options.setExecutionStrategy(sluice.{})", strategy.str());
  for (const std::string_view type : {"Phase.", "Liveness.", "PhaseOrder.", "IoSchedule."}) {
    for (std::size_t at = chosen.find(type); at != std::string::npos;
         at = chosen.find(type, at + std::string_view("sluice.").size() + 1)) {
      chosen.insert(at, "sluice.");
    }
  }
  std::vector<std::string> lines;
  if (replicas > 1) {
    lines.push_back(fmt::format("options.replicationFactor({})", replicas));
    lines.push_back(fmt::format("options.{}({})",
                                training ? "Training.gradientAccumulation" : "deviceIterations",
                                microBatches));
  }
  lines.push_back(std::move(chosen));
  if (recomputation != Recomputation::None) {
    lines.push_back(
        fmt::format("options.recomputation(sluice.Recomputation.{})", name(recomputation)));
  }
  for (const std::string& setter : locationSetters(*this)) {
    lines.push_back(fmt::format("options.TensorLocations.{}(sluice.{}False))", setter, kOffChip));
  }
  return lines;
}

std::size_t Plan::largestDevice() const {
  std::size_t largest = 0;
  for (const PlannedBytes& device : devices) {
    largest = std::max(largest, device.total());
  }
  return largest;
}

}  // namespace sluice
