#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/parallel/strategy.h"

namespace sluice::parallel {
namespace {

using Blocks = std::span<const BlockInfo>;

std::string listOf(Blocks blocks) {
  std::vector<std::string> names;
  for (const BlockInfo& block : blocks) {
    names.push_back("'" + block.name + "'");
  }
  return names.empty() ? "no block" : fmt::format("{}", fmt::join(names, ", "));
}

/// Stages by ascending device; a device in between that no block uses makes no stage.
StagePlan byDevice(Blocks blocks) {
  std::map<std::int32_t, StageInfo> stages;
  for (const BlockInfo& block : blocks) {
    if (block.device < 0) {
      raise<InvalidArgument>(
          "AutoStage.SameAsDevice makes a block's device its stage, but block '{}' has no device: "
          "write Block(\"{}\", device), or give stages or AutoStage.AutoIncrement to the strategy",
          block.name,
          block.name);
    }
    StageInfo& stage = stages[block.device];
    stage.device = block.device;
    stage.blocks.push_back(block.name);
  }
  StagePlan plan;
  for (auto& [device, stage] : stages) {
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

StagePlan byBlock(Blocks blocks) {
  StagePlan plan;
  for (const BlockInfo& block : blocks) {
    const auto id = static_cast<std::int32_t>(plan.stages.size());
    plan.stages.push_back({block.device < 0 ? id : block.device, {block.name}});
  }
  return plan;
}

/// The stage's own device, else the one its blocks agree on, else `otherwise`.
std::int32_t deviceOf(const Stage& stage, std::size_t id, Blocks blocks, std::int32_t otherwise) {
  if (stage.device()) {
    return *stage.device();
  }
  const BlockInfo* placed = nullptr;
  for (const std::string& name : stage.blocks()) {
    const auto block = std::ranges::find(blocks, name, &BlockInfo::name);
    if (block->device < 0) {
      continue;
    }
    if (placed != nullptr && placed->device != block->device) {
      raise<InvalidArgument>(
          "stage {} has block '{}' on device {} and block '{}' on device {}; a stage is on one "
          "device: give it one with {}.device(n)",
          id,
          placed->name,
          placed->device,
          block->name,
          block->device,
          stage.str());
    }
    placed = &*block;
  }
  return placed == nullptr ? otherwise : placed->device;
}

void requireKnownBlocks(const Strategy& strategy, Blocks blocks) {
  for (const Stage& stage : strategy.stages()) {
    for (const std::string& block : stage.blocks()) {
      if (std::ranges::find(blocks, block, &BlockInfo::name) == blocks.end()) {
        raise<InvalidArgument>("{} names an unknown block '{}'; the model has {}",
                               name(strategy.kind()),
                               block,
                               listOf(blocks));
      }
    }
  }
}

/// A group has a device for each stage of a phase; parallel phases take turns on two groups.
StagePlan stagesOfPhases(const Strategy& strategy, Blocks blocks) {
  requireKnownBlocks(strategy, blocks);
  const std::int32_t groups = strategy.kind() == StrategyKind::ParallelPhased ? 2 : 1;
  StagePlan plan;
  for (std::size_t p = 0; p < strategy.numPhases(); ++p) {
    const auto phase = static_cast<std::int32_t>(p);
    const Phase given = strategy.phase(p);
    for (std::size_t i = 0; i < given.stages().size(); ++i) {
      const std::int32_t otherwise = phase % groups + groups * static_cast<std::int32_t>(i);
      const Stage& stage = given.stage(i);
      plan.slotOfStage.push_back(static_cast<std::int32_t>(plan.stages.size()));
      plan.phaseOfStage.push_back(phase);
      plan.stages.push_back(
          {deviceOf(stage, plan.stages.size(), blocks, otherwise), stage.blocks()});
    }
  }
  return plan;
}

StagePlan explicitStages(const Strategy& strategy, Blocks blocks) {
  requireKnownBlocks(strategy, blocks);
  StagePlan plan;
  for (std::size_t slot = 0; slot < strategy.stages().size(); ++slot) {
    const Stage& place = strategy.stage(slot);
    const bool plain = place.branches().empty();
    for (const Stage& stage : plain ? std::span(&place, 1) : place.branches()) {
      const auto id = static_cast<std::int32_t>(plan.stages.size());
      plan.stages.push_back({deviceOf(stage, plan.stages.size(), blocks, id), stage.blocks()});
      plan.slotOfStage.push_back(static_cast<std::int32_t>(slot));
    }
  }
  return plan;
}

void mergeNeighbours(StagePlan& plan) {
  const auto alone = [&](std::size_t stage) {
    return std::ranges::count(plan.slotOfStage, plan.slotOfStage[stage]) == 1;
  };
  StagePlan merged;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    StageInfo& stage = plan.stages[s];
    if (s > 0 && alone(s - 1) && alone(s) && merged.stages.back().device == stage.device) {
      std::vector<std::string>& blocks = merged.stages.back().blocks;
      blocks.insert(blocks.end(), stage.blocks.begin(), stage.blocks.end());
      continue;
    }
    const bool beside = s > 0 && plan.slotOfStage[s - 1] == plan.slotOfStage[s];
    merged.stages.push_back(std::move(stage));
    merged.slotOfStage.push_back(s == 0 ? 0 : merged.slotOfStage.back() + (beside ? 0 : 1));
  }
  plan = std::move(merged);
}

void requireApart(const StagePlan& plan) {
  for (std::size_t a = 0; a < plan.stages.size(); ++a) {
    for (std::size_t b = a + 1; b < plan.stages.size(); ++b) {
      if (plan.slotOfStage[a] == plan.slotOfStage[b] &&
          plan.stages[a].device == plan.stages[b].device) {
        raise<InvalidArgument>(
            "the concurrent stages with blocks {} and {} are both on device {}; they run at the "
            "same time and need different devices",
            fmt::join(plan.stages[a].blocks, ", "),
            fmt::join(plan.stages[b].blocks, ", "),
            plan.stages[a].device);
      }
    }
  }
}

/// Stages without ops at the end belong to the last one with ops: nothing runs in them and nothing
/// follows, so that they are no part of a schedule.
void dropEmptyEnd(StagePlan& plan, Blocks blocks) {
  const auto hasOps = [&](const std::string& name) {
    return std::ranges::find(blocks, name, &BlockInfo::name)->hasOps;
  };
  while (plan.stages.size() > 1 && std::ranges::none_of(plan.stages.back().blocks, hasOps)) {
    const std::vector<std::string> empty = std::move(plan.stages.back().blocks);
    plan.stages.pop_back();
    plan.slotOfStage.resize(plan.stages.size());
    plan.phaseOfStage.resize(std::min(plan.phaseOfStage.size(), plan.stages.size()));
    plan.stages.back().blocks.insert(plan.stages.back().blocks.end(), empty.begin(), empty.end());
  }
}

std::vector<std::int32_t> stageOfBlock(const StagePlan& plan, Blocks blocks) {
  std::vector<std::int32_t> stages;
  for (const BlockInfo& block : blocks) {
    const auto found = std::ranges::find_if(plan.stages, [&](const StageInfo& stage) {
      return std::ranges::find(stage.blocks, block.name) != stage.blocks.end();
    });
    if (found == plan.stages.end() && !block.hasOps) {
      stages.push_back(0);
      continue;
    }
    if (found == plan.stages.end()) {
      raise<InvalidArgument>(
          "block '{}' of the model is in no stage of the strategy; every block needs one",
          block.name);
    }
    stages.push_back(static_cast<std::int32_t>(found - plan.stages.begin()));
  }
  return stages;
}

}  // namespace

std::vector<BlockInfo> blocksOf(const ir::Graph& graph) {
  std::vector<BlockInfo> found;
  std::vector<std::size_t> position(graph.blocks().size(), graph.blocks().size());
  for (const ir::OpId id : graph.order()) {
    const ir::Placement& place = graph.op(id).place;
    if (place.block < 0) {
      continue;
    }
    const auto block = static_cast<std::size_t>(place.block);
    if (position[block] == graph.blocks().size()) {
      position[block] = found.size();
      found.push_back({graph.blocks()[block], place.device});
    }
    const BlockInfo& known = found[position[block]];
    if (known.device != place.device) {
      raise<InvalidArgument>("block '{}' has ops on device {} and on device {}; it has one device",
                             known.name,
                             known.device,
                             place.device);
    }
  }
  for (std::size_t b = 0; b < position.size(); ++b) {
    if (position[b] == position.size()) {
      found.push_back({.name = graph.blocks()[b], .hasOps = false});
    }
  }
  return found;
}

namespace {

/// Every number below the highest is a device that is made and takes memory: a number far above
/// what is used is a mistake.
StagePlan withCloseDevices(StagePlan plan) {
  constexpr std::int32_t kAlways = 64;
  constexpr std::int32_t kPerUsed = 4;
  std::set<std::int32_t> used;
  for (const StageInfo& stage : plan.stages) {
    used.insert(stage.device);
  }
  const std::int32_t highest = used.empty() ? 0 : *used.rbegin();
  if (highest >= kAlways && highest >= kPerUsed * static_cast<std::int64_t>(used.size())) {
    raise<InvalidArgument>(
        "a stage is on device {}, but all stages together use {} devices: number devices from 0 "
        "on, "
        "because every number up to the highest is a device",
        highest,
        used.size());
  }
  return plan;
}

}  // namespace

StagePlan resolveStages(const Strategy& strategy, Blocks all) {
  // A rule makes stages of blocks with ops; who lists stages may name the others, too.
  const auto empty = std::ranges::find(all, false, &BlockInfo::hasOps);
  const Blocks blocks =
      strategy.autoStage() && !isPhased(strategy.kind()) ? Blocks(all.begin(), empty) : all;
  StagePlan plan;
  const bool anyDevice =
      std::ranges::any_of(blocks, [](const BlockInfo& block) { return block.device >= 0; });
  if (isPhased(strategy.kind())) {
    plan = stagesOfPhases(strategy, blocks);
    dropEmptyEnd(plan, all);
    plan.stageOfBlock = stageOfBlock(plan, all);
    return withCloseDevices(std::move(plan));
  }
  const bool automatic = strategy.automaticDevices() > 0;  // its cut left one device
  if (!strategy.autoStage() && !automatic) {
    plan = explicitStages(strategy, blocks);
  } else if (automatic || blocks.empty() ||
             (strategy.autoStage() == AutoStage::SameAsDevice && !anyDevice)) {
    // Nothing says where anything runs: one device.
    plan.stages.push_back({});
    for (const BlockInfo& block : blocks) {
      plan.stages[0].blocks.push_back(block.name);
    }
  } else if (strategy.autoStage() == AutoStage::SameAsDevice) {
    plan = byDevice(blocks);
  } else {
    plan = byBlock(blocks);
  }
  while (plan.slotOfStage.size() < plan.stages.size()) {  // of a rule: one after the other
    plan.slotOfStage.push_back(static_cast<std::int32_t>(plan.slotOfStage.size()));
  }
  mergeNeighbours(plan);
  requireApart(plan);
  dropEmptyEnd(plan, all);
  plan.stageOfBlock = stageOfBlock(plan, all);
  return withCloseDevices(std::move(plan));
}

}  // namespace sluice::parallel
