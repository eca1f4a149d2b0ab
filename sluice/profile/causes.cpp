// The words for causes of idle time, and the work of stages.
#include <array>
#include <map>
#include <set>

#include "sluice/profile/explain.h"

namespace sluice::profile {

using program::LaneKind;

std::string_view name(Cause cause) {
  static constexpr std::array<std::string_view, kCauses> kNames = {
      "ramp", "imbalance", "transfer", "remote memory", "input", "host", "cores"};
  return kNames[static_cast<std::size_t>(cause)];
}

std::string_view remedyOf(Cause cause) {
  static constexpr std::array<std::string_view, kCauses> kRemedies = {
      "The schedule fills and empties the devices: use more micro-batches per weight update, or a "
      "schedule with a smaller ramp (`sluice schedule` compares them).",
      "Stages take different times: move a block from the longest stage to its neighbour, or let "
      "the stages be cut by cost.",
      "Copies between devices are waited for: cut where less data crosses, or use larger "
      "micro-batches.",
      "Remote memory is waited for: keep more on the devices, or give phases more work.",
      "Inputs come too late: load data in other threads (DataLoaderMode::Async, more workers).",
      "The host is slow to take outputs or to feed: return fewer outputs (OutputMode), or make the "
      "callbacks quicker.",
      "Tasks were ready and no core was free: there are fewer cores than busy devices, so use "
      "fewer "
      "devices or threads, or a machine with more cores."};
  return kRemedies[static_cast<std::size_t>(cause)];
}

std::vector<StageTime> stageTimes(const Trace& trace, const std::vector<std::int64_t>& means) {
  std::map<std::int32_t, StageTime> stages;
  for (const TracedLane& lane : trace.lanes) {
    std::set<std::int32_t> subjects;
    for (const TracedTask& task : lane.tasks) {
      subjects.insert(task.subject);
    }
    for (const std::int32_t s : subjects) {
      const TracedSubject& subject = trace.subjects[static_cast<std::size_t>(s)];
      if (lane.kind != LaneKind::Compute || subject.stage < 0) {
        continue;
      }
      StageTime& stage = stages[subject.stage];
      stage.stage = subject.stage;
      stage.device = lane.device;
      (subject.category == "forward" ? stage.forward : stage.backward) +=
          means[static_cast<std::size_t>(s)];
    }
  }
  std::vector<StageTime> result;
  result.reserve(stages.size());
  for (const auto& [number, stage] : stages) {
    result.push_back(stage);
  }
  return result;
}

}  // namespace sluice::profile
