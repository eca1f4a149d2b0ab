#include "sluice/parallel/stage.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/parallel/quoted.h"

namespace sluice::parallel {

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
    ids.push_back(inQuotes(block));
  }
  std::string text = fmt::format("Stage({})", fmt::join(ids, ", "));
  if (device_) {
    text += fmt::format(".device({})", *device_);
  }
  return text;
}

Phase::Phase(std::vector<Stage> stages) : stages_(std::move(stages)) {
  if (stages_.empty()) {
    raise<InvalidArgument>("a phase needs at least one stage");
  }
  for (const Stage& stage : stages_) {
    if (!stage.branches().empty()) {
      raise<InvalidArgument>("the stages of a phase run at the same time; write them without {}",
                             stage.str());
    }
  }
}

Phase Phase::automatic(std::int64_t count) {
  constexpr std::int64_t kMost = 1 << 16;
  if (count < 1 || count > kMost) {
    raise<InvalidArgument>("Phase::automatic: expected 1 to {} phases, got {}", kMost, count);
  }
  Phase phase;
  phase.automatic_ = static_cast<std::int32_t>(count);
  return phase;
}

Phase& Phase::devices(const std::vector<std::int64_t>& numbers) {
  if (numbers.size() != stages_.size()) {
    raise<InvalidArgument>("{}: {} devices for {} stages; each stage of a phase has one",
                           str(),
                           numbers.size(),
                           stages_.size());
  }
  std::vector<Stage> placed = stages_;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    placed[i].device(numbers[i]);
  }
  stages_ = std::move(placed);
  return *this;
}

const Stage& Phase::stage(std::size_t i) const {
  if (i >= stages_.size()) {
    raise<InvalidArgument>("{} has no stage {}", str(), i);
  }
  return stages_[i];
}

Stage& Phase::stage(std::size_t i) {
  return const_cast<Stage&>(std::as_const(*this).stage(i));  // NOLINT: own
}

std::string Phase::str() const {
  if (automatic_ > 0) {
    return fmt::format("Phase.automatic({})", automatic_);
  }
  std::vector<std::string> parts;
  for (const Stage& stage : stages_) {
    parts.push_back(stage.str());
  }
  return fmt::format("Phase({})", fmt::join(parts, ", "));
}

}  // namespace sluice::parallel
