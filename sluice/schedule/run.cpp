// A device advances through its order until its next piece waits for a piece that has not run. Each
// piece that ends wakes the devices of the pieces that follow it. A piece is examined once when it
// runs and once for every device that waits for it, so the total is linear in pieces.
#include "sluice/schedule/run.h"

#include <algorithm>

#include "sluice/base/error.h"

namespace sluice::schedule {
namespace {

constexpr std::int64_t kNotRun = -1;

class Run {
 public:
  Run(const CheckedProblem& checked, const Orders& orders)
      : checked_(checked),
        orders_(orders),
        end_(checked.numPieces(), kNotRun),
        next_(orders.size(), 0),
        free_(orders.size(), 0),
        queued_(orders.size(), true) {
    schedule_.devices.resize(orders.size());
    for (std::size_t d = 0; d < orders.size(); ++d) {
      schedule_.devices[d].reserve(orders[d].size());
      queue_.push_back(d);
    }
  }

  PipelineSchedule run() {
    while (!queue_.empty()) {
      const std::size_t d = queue_.back();
      queue_.pop_back();
      queued_[d] = false;
      while (next_[d] < orders_[d].size() && step(d, orders_[d][next_[d]])) {
        ++next_[d];
      }
    }
    for (std::size_t d = 0; d < orders_.size(); ++d) {
      SLUICE_CHECK(next_[d] == orders_[d].size(), "the order of device {} deadlocks", d);
    }
    return std::move(schedule_);
  }

 private:
  /// Runs the next piece of a device unless it has to wait.
  bool step(std::size_t d, const Piece& piece) {
    std::int64_t start = free_[d];
    bool ready = true;
    checked_.eachBefore(piece.kind, piece.stage, [&](WorkKind kind, std::int32_t stage) {
      const std::int64_t end = end_[checked_.id(kind, stage, piece.microBatch)];
      ready = ready && end != kNotRun;
      start = std::max(start, end + checked_.transfer(stage, piece.stage));
    });
    if (!ready) {
      return false;
    }
    const std::int64_t end = start + checked_.duration(piece.kind, piece.stage);
    end_[checked_.id(piece.kind, piece.stage, piece.microBatch)] = end;
    free_[d] = end;
    schedule_.devices[d].push_back({piece.kind, piece.stage, piece.microBatch, start, end});
    checked_.eachAfter(piece.kind, piece.stage, [&](WorkKind, std::int32_t stage) {
      const auto other = static_cast<std::size_t>(checked_.device(stage));
      if (other != d && !queued_[other]) {
        queued_[other] = true;
        queue_.push_back(other);
      }
    });
    return true;
  }

  const CheckedProblem& checked_;
  const Orders& orders_;
  std::vector<std::int64_t> end_;
  std::vector<std::size_t> next_;
  std::vector<std::int64_t> free_;
  std::vector<std::size_t> queue_;
  std::vector<bool> queued_;
  PipelineSchedule schedule_;
};

/// Counts micro-batches of a stage that are between two of their pieces.
class Depths {
 public:
  explicit Depths(std::size_t stages) : now_(stages, 0), most_(stages, 0) {}
  void enter(std::int32_t stage) {
    const auto s = static_cast<std::size_t>(stage);
    most_[s] = std::max(most_[s], ++now_[s]);
  }
  void leave(std::int32_t stage) { --now_[static_cast<std::size_t>(stage)]; }
  std::vector<std::int32_t> most() && { return std::move(most_); }

 private:
  std::vector<std::int32_t> now_;
  std::vector<std::int32_t> most_;
};

/// Follows the memory of the devices; a device is serial, so its order alone decides.
void measureMemory(const CheckedProblem& checked, PipelineSchedule& schedule) {
  const auto stages = static_cast<std::size_t>(checked.numStages());
  Depths stash(stages);
  Depths activations(stages);
  Depths weightGrads(stages);
  const WorkKind releases = checked.kinds().size() > 1 ? checked.kinds()[1] : WorkKind::Forward;
  for (const auto& device : schedule.devices) {
    std::int64_t bytes = 0;
    std::int64_t peak = 0;
    for (const Work& work : device) {
      const StageBytes& held = checked.bytes(work.stage);
      if (work.kind == WorkKind::Forward) {
        stash.enter(work.stage);
        activations.enter(work.stage);
        bytes += held.activations;
      } else if (work.kind == WorkKind::BackwardInput) {
        weightGrads.enter(work.stage);
        bytes += held.weightGradInputs;
      }
      peak = std::max(peak, bytes);
      if (work.kind == releases) {
        activations.leave(work.stage);
        bytes -= held.activations;
      } else if (work.kind == WorkKind::BackwardWeight) {
        weightGrads.leave(work.stage);
        bytes -= held.weightGradInputs;
      }
      if (work.kind == checked.kinds().back()) {
        stash.leave(work.stage);
      }
    }
    schedule.peakBytes.push_back(peak);
  }
  schedule.stashDepth = std::move(stash).most();
  schedule.activationDepth = std::move(activations).most();
  schedule.weightGradDepth = std::move(weightGrads).most();
}

void measureTime(const CheckedProblem& checked, PipelineSchedule& schedule) {
  for (const auto& device : schedule.devices) {
    std::int64_t busy = 0;
    for (const Work& work : device) {
      busy += work.end - work.start;
    }
    schedule.busy.push_back(busy);
    schedule.makespan = std::max(schedule.makespan, device.empty() ? 0 : device.back().end);
  }
  double idle = 0;
  for (std::size_t d = 0; d < schedule.devices.size(); ++d) {
    const bool used = !schedule.devices[d].empty();
    schedule.bubble.push_back(used ? schedule.makespan - schedule.busy[d] : 0);
    idle += static_cast<double>(schedule.bubble[d]);
  }
  if (schedule.makespan > 0) {
    schedule.rampShare = idle / static_cast<double>(schedule.makespan) / checked.numUsedDevices();
  }
}

}  // namespace

PipelineSchedule runOrders(const CheckedProblem& checked, const Orders& orders) {
  PipelineSchedule schedule = Run(checked, orders).run();
  measureTime(checked, schedule);
  measureMemory(checked, schedule);
  return schedule;
}

PipelineSchedule repeatSchedule(const CheckedProblem& checked, const PipelineSchedule& one) {
  PipelineSchedule schedule;
  schedule.devices.resize(one.devices.size());
  for (std::int32_t m = 0; m < checked.microBatches(); ++m) {
    const std::int64_t begin = m * one.makespan;
    for (std::size_t d = 0; d < one.devices.size(); ++d) {
      for (const Work& work : one.devices[d]) {
        schedule.devices[d].push_back(
            {work.kind, work.stage, m, begin + work.start, begin + work.end});
      }
    }
  }
  measureTime(checked, schedule);
  measureMemory(checked, schedule);
  return schedule;
}

}  // namespace sluice::schedule
