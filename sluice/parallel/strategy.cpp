#include "sluice/parallel/strategy.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::parallel {
namespace {

bool has(const Stage& stage, std::string_view block) {
  return std::ranges::find(stage.blocks(), block) != stage.blocks().end();
}

/// As options files write text.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c;
  }
  return result + "\"";
}

}  // namespace

std::string_view name(AutoStage rule) {
  return rule == AutoStage::SameAsDevice ? "SameAsDevice" : "AutoIncrement";
}

std::string_view name(StrategyKind kind) {
  return kind == StrategyKind::Pipelined ? "PipelinedExecution" : "ShardedExecution";
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

Stage::Stage(std::vector<std::string> blocks) : blocks_(std::move(blocks)) {
  if (blocks_.empty()) {
    raise<InvalidArgument>("a stage needs at least one block");
  }
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    if (block->empty()) {
      raise<InvalidArgument>("a stage names a block without an id; ids are not empty");
    }
    if (std::find(blocks_.begin(), block, *block) != block) {
      raise<InvalidArgument>("a stage names block '{}' twice", *block);
    }
  }
}

namespace {

std::vector<std::string> blocksOf(std::span<const Stage> stages) {
  std::vector<std::string> blocks;
  for (const Stage& stage : stages) {
    blocks.insert(blocks.end(), stage.blocks().begin(), stage.blocks().end());
  }
  return blocks;
}

}  // namespace

Stage::Stage(Branches branches) : Stage(blocksOf(branches.list)) {
  if (branches.list.size() < 2) {
    raise<InvalidArgument>("concurrent stages are at least two, got {}", branches.list.size());
  }
  for (const Stage& branch : branches.list) {
    if (!branch.branches_.empty()) {
      raise<InvalidArgument>("concurrent stages hold plain stages, got {}", branch.str());
    }
  }
  branches_ = std::move(branches.list);
}

Stage& Stage::device(std::int64_t device) {
  if (!branches_.empty()) {
    raise<InvalidArgument>("{}: each of the concurrent stages has a device of its own", str());
  }
  if (device < 0 || device > std::numeric_limits<std::int32_t>::max()) {
    raise<InvalidArgument>("{}: a device has a number from 0 on, got {}", str(), device);
  }
  device_ = static_cast<std::int32_t>(device);
  return *this;
}

std::string Stage::str() const {
  if (!branches_.empty()) {
    std::vector<std::string> parts;
    for (const Stage& branch : branches_) {
      parts.push_back(branch.str());
    }
    return fmt::format("ConcurrentStages({})", fmt::join(parts, ", "));
  }
  std::vector<std::string> ids;
  for (const std::string& block : blocks_) {
    ids.push_back(quoted(block));
  }
  std::string text = fmt::format("Stage({})", fmt::join(ids, ", "));
  if (device_) {
    text += fmt::format(".device({})", *device_);
  }
  return text;
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
  if (autoStage_) {
    text += fmt::format("(AutoStage.{})", name(*autoStage_));
  } else {
    std::vector<std::string> parts;
    for (const Stage& stage : stages_) {
      parts.push_back(stage.str());
    }
    text += fmt::format("({})", fmt::join(parts, ", "));
  }
  if (kind_ == StrategyKind::Pipelined) {
    text += fmt::format(".schedule({})", quoted(name(schedule_)));
  }
  return text;
}

PipelinedExecution& PipelinedExecution::schedule(PipelineKind schedule) {
  setSchedule(schedule);
  return *this;
}

PipelinedExecution& PipelinedExecution::schedule(std::string_view name) {
  return schedule(parsePipelineKind(name));
}

}  // namespace sluice::parallel
