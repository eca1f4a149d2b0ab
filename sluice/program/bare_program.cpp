#include "sluice/program/bare_program.h"

#include <algorithm>
#include <map>

#include "sluice/base/error.h"

namespace sluice::program {
namespace {

using schedule::PipelineProblem;
using schedule::PipelineSchedule;
using schedule::Work;
using schedule::WorkKind;

constexpr std::size_t kKinds = 4;  // of work

class Builder {
 public:
  Builder(const PipelineSchedule& schedule, const PipelineProblem& problem)
      : s_(schedule),
        problem_(problem),
        stages_(problem.deviceOfStage.size()),
        microBatches_(static_cast<std::size_t>(problem.microBatches)),
        forward_(stages_ * microBatches_, -1),
        backward_(stages_ * microBatches_, -1),
        activation_(stages_ * microBatches_, -1),
        gradient_(stages_ * microBatches_, -1) {}

  Program run() {
    p_.name = schedule::name(s_.kind);
    p_.microBatchesPerRound = problem_.microBatches;
    p_.training = problem_.training;
    p_.devices.resize(s_.devices.size());
    addSegments();
    addCompute();
    addCopies();
    addWaits();
    return std::move(p_);
  }

 private:
  std::size_t at(std::int32_t stage, std::int32_t microBatch) const {
    return static_cast<std::size_t>(stage) * microBatches_ + static_cast<std::size_t>(microBatch);
  }
  std::int32_t deviceOf(std::int32_t stage) const {
    return problem_.deviceOfStage[static_cast<std::size_t>(stage)];
  }
  bool crosses(std::int32_t from, std::int32_t to) const {
    return to >= 0 && to < static_cast<std::int32_t>(stages_) && deviceOf(from) != deviceOf(to);
  }

  void addSegments() {
    static constexpr SegmentKind kOf[kKinds] = {SegmentKind::Forward,
                                                SegmentKind::Backward,
                                                SegmentKind::BackwardInput,
                                                SegmentKind::BackwardWeight};
    for (const SegmentKind kind : kOf) {
      for (std::size_t s = 0; s < stages_; ++s) {
        const auto stage = static_cast<std::int32_t>(s);
        p_.segments.push_back(
            {parallel::SegmentInfo{.kind = kind, .device = deviceOf(stage), .stage = stage}, {}});
      }
    }
    p_.transfers.resize(2 * stages_);
    for (std::size_t s = 0; s < stages_; ++s) {
      p_.transfers[s].name = "activation";
      p_.transfers[stages_ + s].name = "gradient";
    }
  }

  void addCompute() {
    for (std::size_t d = 0; d < s_.devices.size(); ++d) {
      Lane& lane = p_.lanes.emplace_back();
      lane.device = static_cast<std::int32_t>(d);
      lane.tasks.reserve(s_.devices[d].size());
      for (const Work& work : s_.devices[d]) {
        const auto place = lane.tasks.count();
        if (work.kind == WorkKind::Forward) {
          forward_[at(work.stage, work.microBatch)] = place;
        } else if (work.kind != WorkKind::BackwardWeight) {
          backward_[at(work.stage, work.microBatch)] = place;
        }
        lane.tasks.push_back(
            {.subject = static_cast<std::int32_t>(static_cast<std::size_t>(work.kind) * stages_) +
                        work.stage,
             .microBatch = work.microBatch,
             .plannedStart = work.start});
      }
    }
  }

  /// In the order in which they are made, a lane for each pair of devices.
  void addCopies() {
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> lanes;
    const auto add = [&](const Work& work, std::int32_t to, std::int32_t subject) {
      const std::pair<std::int32_t, std::int32_t> key{deviceOf(to), deviceOf(work.stage)};
      const auto [lane, isNew] = lanes.try_emplace(key, p_.lanes.size());
      if (isNew) {
        Lane& made = p_.lanes.emplace_back();
        made.device = key.first;
        made.kind = LaneKind::Exchange;
        made.peer = key.second;
      }
      Table<Task>& tasks = p_.lanes[lane->second].tasks;
      const auto place = tasks.count();
      (subject < static_cast<std::int32_t>(stages_) ? activation_
                                                    : gradient_)[at(work.stage, work.microBatch)] =
          place;
      tasks.push_back({.kind = TaskKind::Transfer,
                       .subject = subject,
                       .microBatch = work.microBatch,
                       .plannedStart = work.end});
    };
    for (const std::vector<Work>& device : s_.devices) {
      for (const Work& work : device) {
        if (work.kind == WorkKind::Forward && crosses(work.stage, work.stage + 1)) {
          add(work, work.stage + 1, work.stage);
        } else if ((work.kind == WorkKind::Backward || work.kind == WorkKind::BackwardInput) &&
                   crosses(work.stage, work.stage - 1)) {
          add(work, work.stage - 1, static_cast<std::int32_t>(stages_) + work.stage);
        }
      }
    }
    laneOf_ = std::move(lanes);
  }

  std::int32_t copyLane(std::int32_t to, std::int32_t from) const {
    return static_cast<std::int32_t>(laneOf_.at({deviceOf(to), deviceOf(from)}));
  }

  void addWaits() {
    std::size_t copies = 0;
    for (std::size_t l = s_.devices.size(); l < p_.lanes.size(); ++l) {
      copies += p_.lanes[l].tasks.size();
    }
    p_.waits.reserve(2 * copies);
    for (Lane& lane : p_.lanes) {
      for (Task& task : lane.tasks) {
        task.firstWait = p_.waits.count();
        lane.kind == LaneKind::Compute ? waitForCopy(task) : waitForWork(task);
        task.numWaits = p_.waits.count() - task.firstWait;
      }
    }
  }

  void waitForCopy(const Task& task) {
    const std::int32_t stage = task.subject % static_cast<std::int32_t>(stages_);
    const auto kind = static_cast<WorkKind>(static_cast<std::size_t>(task.subject) / stages_);
    if (kind == WorkKind::Forward && stage > 0 && crosses(stage - 1, stage)) {
      p_.waits.push_back({.lane = copyLane(stage, stage - 1),
                          .task = activation_[at(stage - 1, task.microBatch)]});
    } else if ((kind == WorkKind::Backward || kind == WorkKind::BackwardInput) &&
               crosses(stage, stage + 1)) {
      p_.waits.push_back(
          {.lane = copyLane(stage, stage + 1), .task = gradient_[at(stage + 1, task.microBatch)]});
    }
  }

  void waitForWork(const Task& task) {
    const bool isGradient = task.subject >= static_cast<std::int32_t>(stages_);
    const std::int32_t stage = task.subject % static_cast<std::int32_t>(stages_);
    p_.waits.push_back({.lane = deviceOf(stage),
                        .task = (isGradient ? backward_ : forward_)[at(stage, task.microBatch)]});
  }

  const PipelineSchedule& s_;
  const PipelineProblem& problem_;
  std::size_t stages_;
  std::size_t microBatches_;
  // By stage and micro-batch: places of tasks in their lanes; -1: none.
  std::vector<std::int32_t> forward_;
  std::vector<std::int32_t> backward_;
  std::vector<std::int32_t> activation_;  // the copy of what the stage made
  std::vector<std::int32_t> gradient_;    // the copy of the gradient that the stage made
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> laneOf_;  // of copies: to, from
  Program p_;
};

}  // namespace

Program bareProgram(const PipelineSchedule& schedule, const PipelineProblem& problem) {
  if (!problem.slotOfStage.empty()) {
    raise<InvalidArgument>("a pipeline with concurrent stages cannot be simulated from its counts");
  }
  return Builder(schedule, problem).run();
}

}  // namespace sluice::program
