// Model::suggestChanges: plans the model in other ways and simulates each plan. Nothing is computed
// or changed.
#include <algorithm>

#include <fmt/format.h>

#include "sluice/api/model_core.h"
#include "sluice/api/virtual_time.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/compile/compile.h"

namespace sluice {
namespace {

struct Candidate {
  std::string change;
  Strategy strategy;
};

Strategy like(const Strategy& strategy, std::vector<Stage> stages) {
  if (strategy.kind() == parallel::StrategyKind::Sharded) {
    return ShardedExecution(std::move(stages));
  }
  return PipelinedExecution(std::move(stages)).schedule(strategy.schedule());
}

Stage withBlocks(const Stage& stage, std::vector<std::string> blocks) {
  Stage other(std::move(blocks));
  if (stage.device()) {
    other.device(*stage.device());
  }
  return other;
}

std::string whereIs(const Stage& stage, std::size_t number) {
  return stage.device() ? fmt::format("device {}", *stage.device())
                        : fmt::format("stage {}", number);
}

/// Moves the block at the border of two stages across it.
void addMoves(const Strategy& strategy, std::vector<Candidate>& found) {
  const std::vector<Stage> stages(strategy.stages().begin(), strategy.stages().end());
  for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
    const auto move = [&](bool forward) {
      std::vector<std::string> left = stages[s].blocks();
      std::vector<std::string> right = stages[s + 1].blocks();
      std::vector<std::string>& from = forward ? left : right;
      if (from.size() < 2) {
        return;
      }
      const std::string block = forward ? from.back() : from.front();
      from.erase(forward ? from.end() - 1 : from.begin());
      forward ? right.insert(right.begin(), block) : left.insert(left.end(), block);
      std::vector<Stage> moved = stages;
      moved[s] = withBlocks(stages[s], left);
      moved[s + 1] = withBlocks(stages[s + 1], right);
      const std::size_t to = forward ? s + 1 : s;
      found.push_back({fmt::format("move block {} to {}", block, whereIs(stages[to], to)),
                       like(strategy, std::move(moved))});
    };
    move(true);
    move(false);
  }
}

/// Puts a whole stage on the device of another one.
void addPlaces(const Strategy& strategy, std::vector<Candidate>& found) {
  const std::vector<Stage> stages(strategy.stages().begin(), strategy.stages().end());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (std::size_t other = 0; other < stages.size(); ++other) {
      if (!stages[s].device() || !stages[other].device() ||
          stages[s].device() == stages[other].device()) {
        continue;
      }
      std::vector<Stage> moved = stages;
      moved[s].device(*stages[other].device());
      found.push_back({fmt::format("move stage {} ({}) to device {}",
                                   s,
                                   fmt::join(stages[s].blocks(), ", "),
                                   *stages[other].device()),
                       like(strategy, std::move(moved))});
    }
  }
}

std::vector<Candidate> candidatesOf(const Strategy& strategy) {
  constexpr std::size_t kMost = 48;
  std::vector<Candidate> found;
  const auto isPlain = [](const Stage& stage) { return stage.branches().empty(); };
  if (strategy.numPhases() > 0 || strategy.stages().empty() ||
      !std::ranges::all_of(strategy.stages(), isPlain)) {
    return found;
  }
  if (strategy.kind() == parallel::StrategyKind::Pipelined) {
    const std::vector<Stage> stages(strategy.stages().begin(), strategy.stages().end());
    for (const PipelineKind kind : schedule::allPipelineKinds()) {
      if (kind != strategy.schedule()) {
        found.push_back({fmt::format("use schedule {}", schedule::name(kind)),
                         PipelinedExecution(stages).schedule(kind)});
      }
    }
  }
  addMoves(strategy, found);
  addPlaces(strategy, found);
  found.erase(found.begin() + static_cast<std::ptrdiff_t>(std::min(found.size(), kMost)),
              found.end());
  return found;
}

}  // namespace

std::vector<Suggestion> ModelCore::suggestChanges(std::size_t most, const std::string& target) {
  const runtime::Turn::Hold turn = enter();
  if (target.empty()) {
    requireSimulated();
    return suggestions(*programs_.back(), most, nullptr);
  }
  if (const std::string& known = alive().simulatedOn(); !known.empty()) {
    raise<InvalidArgument>("the times of this model are simulated on {} already", known);
  }
  static_cast<void>(compiled());  // throws if there is none
  return suggestions(*programs_.back(), most, VirtualTime::on(target).get());
}

std::vector<Suggestion> ModelCore::suggestions(const Entry& entry,
                                               std::size_t most,
                                               const VirtualTime* time) const {
  Session& session = alive();
  const auto secondsOf = [&](const program::Program& program) {
    const auto replicas = static_cast<std::int32_t>(entry.layout.replicationFactor);
    return time != nullptr ? time->seconds(program, rounds(entry.layout), replicas)
                           : session.simulatedSeconds(program, rounds(entry.layout), replicas);
  };
  const double now = secondsOf(entry.compiled.program->program());
  std::vector<Suggestion> found;
  for (const Candidate& candidate : candidatesOf(options_.executionStrategy())) {
    Options tried = options_;
    tried.setExecutionStrategy(candidate.strategy);
    try {
      TracedGraph traced = graphFor(entry.signature);
      const program::Program program = session.plan(requestOf(traced, entry.layout, tried));
      const double seconds = secondsOf(program);
      if (seconds < now) {
        found.push_back({.change = candidate.change,
                         .strategy = candidate.strategy,
                         .seconds = seconds,
                         .faster = 1 - seconds / now});
      }
    } catch (const Error& error) {  // it breaks a rule, or does not fit
      log::debug("model", "{}: {}", candidate.change, error.message());
    }
  }
  std::ranges::stable_sort(found, {}, &Suggestion::seconds);
  found.erase(found.begin() + static_cast<std::ptrdiff_t>(std::min(found.size(), most)),
              found.end());
  return found;
}

}  // namespace sluice
