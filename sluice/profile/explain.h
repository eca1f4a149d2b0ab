// Explains a Trace: why every device was idle whenever it was. A pure function.
//
// A stretch in which a device's compute lane runs nothing ends with a task (or with the step). That
// task waited for another one, which ran or waited itself, and so on back to the begin of the
// stretch. Every nanosecond of the stretch belongs to one task of this chain: to its work or to the
// time in which it could have run and did not. So the causes add up to the idle time exactly.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/profile/trace.h"

namespace sluice::profile {

enum class Cause : std::uint8_t {
  Ramp,          ///< other devices compute, as long as they would if all stages were equal
  Imbalance,     ///< other devices compute longer than that
  Transfer,      ///< copies and sums between devices
  RemoteMemory,  ///< fetches and flushes
  Input,         ///< feeds
  Host,          ///< the host takes outputs, or has not begun to feed
  Cores          ///< what is needed could run, but no core has taken it up
};
inline constexpr std::size_t kCauses = 7;
/// "ramp", "imbalance", ...
std::string_view name(Cause cause);
/// What to do about it, a sentence.
std::string_view remedyOf(Cause cause);

/// A part of a stretch and the task that it was waited for.
struct IdlePart {
  Cause cause = Cause::Ramp;
  std::int64_t time = 0;
  std::int32_t lane = 0;
  std::int32_t task = 0;
};

struct IdleStretch {
  std::size_t device = 0;  ///< of all replicas
  std::int32_t step = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int32_t nextLane = -1;  ///< of the task that ends it; -1: the step ends
  std::int32_t nextTask = -1;
  std::vector<IdlePart> parts;  ///< from the end back; their times add up to end - begin
};

/// Sums over all steps.
struct DeviceIdle {
  std::int64_t span = 0;
  std::int64_t busy = 0;
  std::array<std::int64_t, kCauses> causes{};
  std::int64_t idle() const { return span - busy; }
};

/// The kernels of a stage for one micro-batch, on average.
struct StageTime {
  std::int32_t stage = 0;
  std::int32_t device = 0;
  std::int64_t forward = 0;
  std::int64_t backward = 0;  ///< both parts
  std::int64_t time() const { return forward + backward; }
};

/// All tasks of one subject, or what was waited for without a task.
struct SubjectTime {
  std::int32_t subject = 0;
  std::int64_t count = 0;
  std::int64_t total = 0;
  std::int64_t longest = 0;
};

/// A part of the critical path: the chain from the end of a step back to its begin.
struct PathPart {
  std::int32_t subject = 0;
  bool waiting = false;        ///< could run, but did not yet
  Cause cause = Cause::Cores;  ///< if waiting
  std::int64_t time = 0;
};

struct Explanation {
  std::vector<DeviceIdle> devices;     ///< of all replicas
  std::vector<IdleStretch> stretches;  ///< by step, device and time
  std::vector<StageTime> stages;
  std::vector<SubjectTime> subjects;   ///< the longest total first
  std::vector<PathPart> criticalPath;  ///< the longest first; adds up to `measured`
  std::int64_t measured = 0;           ///< time of all steps
  /// The time of all steps with the same kernels in the same order, if nothing but kernels and
  /// their order took time.
  std::int64_t ideal = 0;
  std::int64_t even = 0;  ///< the same if all stages were equal, too, where that helps
};

Explanation explain(const Trace& trace);

/// By stage, from the mean duration of every subject.
std::vector<StageTime> stageTimes(const Trace& trace, const std::vector<std::int64_t>& means);

}  // namespace sluice::profile
