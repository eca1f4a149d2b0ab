#include "sluice/parallel/strategy.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/parallel/quoted.h"

namespace sluice::parallel {
namespace {

bool has(const Stage& stage, std::string_view block) {
  return std::ranges::find(stage.blocks(), block) != stage.blocks().end();
}

}  // namespace

std::string_view name(AutoStage rule) {
  return rule == AutoStage::SameAsDevice ? "SameAsDevice" : "AutoIncrement";
}

std::string_view name(StrategyKind kind) {
  static constexpr std::array<std::string_view, 4> kNames = {
      "PipelinedExecution", "ShardedExecution", "SerialPhasedExecution", "ParallelPhasedExecution"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name(PhaseOrder order) {
  static constexpr std::array<std::string_view, 3> kNames = {
      "Automatic", "PhaseMajor", "MicroBatchMajor"};
  return kNames[static_cast<std::size_t>(order)];
}

std::string_view name(IoSchedule schedule) {
  static constexpr std::array<std::string_view, 3> kNames = {"Automatic", "Preload", "OnDemand"};
  return kNames[static_cast<std::size_t>(schedule)];
}

PipelineKind parsePipelineKind(std::string_view text) {
  std::vector<std::string_view> names;
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    if (schedule::name(kind) == text) {
      return kind;
    }
    names.push_back(schedule::name(kind));
  }
  raise<InvalidArgument>(
      "there is no pipeline schedule '{}'; the schedules are {}", text, fmt::join(names, ", "));
}

Strategy::Strategy(StrategyKind kind, std::span<const Phase> phases) : kind_(kind) {
  if (phases.empty()) {
    raise<InvalidArgument>("{} got no phases; give at least one, or Phase::automatic(n)",
                           name(kind_));
  }
  for (const Phase& phase : phases) {
    if (phase.automaticCount() > 0) {
      if (phases.size() > 1) {
        raise<InvalidArgument>(
            "{}: {} stands for all phases; give nothing beside it", name(kind_), phase.str());
      }
      automaticPhases_ = phase.automaticCount();
      return;
    }
    stages_.insert(stages_.end(), phase.stages().begin(), phase.stages().end());
    phaseEnds_.push_back(stages_.size());
  }
  requireBlocksOnce();
}

std::pair<std::size_t, std::size_t> Strategy::stagesOfPhase(std::size_t i) const {
  if (i >= phaseEnds_.size()) {
    raise<InvalidArgument>("{} has no phase {}: {} are given", str(), i, phaseEnds_.size());
  }
  return {i == 0 ? 0 : phaseEnds_[i - 1], phaseEnds_[i]};
}

Phase Strategy::phase(std::size_t i) const {
  const auto [begin, end] = stagesOfPhase(i);
  const std::span<const Stage> stages = std::span(stages_).subspan(begin, end - begin);
  return Phase(std::vector<Stage>(stages.begin(), stages.end()));
}

PhaseRef Strategy::phase(std::size_t i) {
  const auto [begin, end] = stagesOfPhase(i);
  return PhaseRef(std::span(stages_).subspan(begin, end - begin));
}

Strategy::Strategy(StrategyKind kind, std::vector<Stage> stages)
    : kind_(kind), stages_(std::move(stages)) {
  if (stages_.empty()) {
    raise<InvalidArgument>("{} got an empty list of stages", name(kind_));
  }
  for (const Stage& stage : stages_) {
    if (kind_ == StrategyKind::Sharded && !stage.branches().empty()) {
      raise<InvalidArgument>(
          "{} runs one stage at a time; {} needs PipelinedExecution", name(kind_), stage.str());
    }
  }
  requireBlocksOnce();
}

void Strategy::setAutomatic(std::int64_t devices) {
  constexpr std::int64_t kMost = 1024;
  if (devices < 1 || devices > kMost) {
    raise<InvalidArgument>(
        "{}::automatic: expected 1 to {} devices, got {}", name(kind_), kMost, devices);
  }
  autoStage_.reset();
  automaticDevices_ = static_cast<std::int32_t>(devices);
}

void Strategy::setAutomatic(std::vector<double> shares) {
  setAutomatic(static_cast<std::int64_t>(shares.size()));
  for (const double share : shares) {
    if (!std::isfinite(share) || share <= 0) {
      raise<InvalidArgument>(
          "{}::automatic: a device's share of the work is a number above 0, got {}",
          name(kind_),
          share);
    }
  }
  shares_ = std::move(shares);
}

void Strategy::setStagesPerDevice(std::int64_t count) {
  constexpr std::int64_t kMost = 8;
  if (automaticDevices_ == 0) {
    raise<InvalidArgument>(
        "stagesPerDevice is for {0}::automatic(devices); {0} with stages has as many as are listed",
        name(kind_));
  }
  if (count < 1 || count > kMost) {
    raise<InvalidArgument>("stagesPerDevice: expected 1 to {}, got {}", kMost, count);
  }
  stagesPerDevice_ = static_cast<std::int32_t>(count);
}

void Strategy::requireBlocksOnce() const {
  for (std::size_t later = 1; later < stages_.size(); ++later) {
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      for (const std::string& block : stages_[later].blocks()) {
        if (has(stages_[earlier], block)) {
          raise<InvalidArgument>(
              "{}: block '{}' is in two stages, {} and {}", name(kind_), block, earlier, later);
        }
      }
    }
  }
}

std::size_t Strategy::checked(std::size_t id) const {
  if (id >= stages_.size()) {
    raise<InvalidArgument>("{} has no stage {}: {} are given", str(), id, stages_.size());
  }
  return id;
}

const Stage& Strategy::find(std::string_view block) const {
  const auto found =
      std::ranges::find_if(stages_, [&](const Stage& stage) { return has(stage, block); });
  if (found == stages_.end()) {
    raise<InvalidArgument>("{} has no stage with block '{}'", str(), block);
  }
  const std::span<const Stage> branches = found->branches();
  return branches.empty()
             ? *found
             : *std::ranges::find_if(branches, [&](const Stage& s) { return has(s, block); });
}

std::string Strategy::str() const {
  std::string text(name(kind_));
  if (!shares_.empty()) {
    text += fmt::format(".automatic([{}])", fmt::join(shares_, ", "));
  } else if (automaticDevices_ > 0) {
    text += fmt::format(".automatic({})", automaticDevices_);
  } else if (autoStage_) {
    text += fmt::format("(AutoStage.{})", name(*autoStage_));
  } else if (isPhased(kind_)) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < numPhases(); ++i) {
      parts.push_back(phase(i).str());
    }
    text += automaticPhases_ > 0 ? fmt::format("({})", Phase::automatic(automaticPhases_).str())
                                 : fmt::format("({})", fmt::join(parts, ", "));
    if (liveness_ != Liveness::AlwaysLive) {
      text += fmt::format(".setTensorsLiveness(Liveness.{})", name(liveness_));
    }
    text += separateBackward_ ? ".useSeparateBackwardPhase(true)" : "";
    if (phaseOrder_ != PhaseOrder::Automatic) {
      text += fmt::format(".order(PhaseOrder.{})", name(phaseOrder_));
    }
    if (ioSchedule_ != IoSchedule::Automatic) {
      text += fmt::format(".io(IoSchedule.{})", name(ioSchedule_));
    }
    if (phaseSchedule_ != PhaseSchedule::Automatic) {
      text += fmt::format(".schedule(PhaseSchedule.{})", name(phaseSchedule_));
    }
  } else {
    std::vector<std::string> parts;
    for (const Stage& stage : stages_) {
      parts.push_back(stage.str());
    }
    text += fmt::format("({})", fmt::join(parts, ", "));
  }
  if (kind_ == StrategyKind::Pipelined) {
    text += fmt::format(".schedule({})", inQuotes(name(schedule_)));
    text += stagesPerDevice_ > 1 ? fmt::format(".stagesPerDevice({})", stagesPerDevice_) : "";
  }
  return text;
}

PipelinedExecution PipelinedExecution::automatic(std::int64_t devices) {
  PipelinedExecution execution;
  execution.setAutomatic(devices);
  return execution;
}

PipelinedExecution PipelinedExecution::automatic(std::vector<double> shares) {
  PipelinedExecution execution;
  execution.setAutomatic(std::move(shares));
  return execution;
}

PipelinedExecution& PipelinedExecution::stagesPerDevice(std::int64_t count) {
  setStagesPerDevice(count);
  return *this;
}

ShardedExecution ShardedExecution::automatic(std::int64_t devices) {
  ShardedExecution execution;
  execution.setAutomatic(devices);
  return execution;
}

ShardedExecution ShardedExecution::automatic(std::vector<double> shares) {
  ShardedExecution execution;
  execution.setAutomatic(std::move(shares));
  return execution;
}

PipelinedExecution& PipelinedExecution::schedule(PipelineKind schedule) {
  setSchedule(schedule);
  return *this;
}

PipelinedExecution& PipelinedExecution::schedule(std::string_view name) {
  return schedule(parsePipelineKind(name));
}

}  // namespace sluice::parallel
