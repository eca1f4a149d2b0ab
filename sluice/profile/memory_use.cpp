#include "sluice/profile/memory_use.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace sluice::profile {
namespace {

using runtime::TaskTime;

/// Bytes that are held for a time.
struct Held {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t bytes = 0;
  std::int32_t buffer = -1;  // or the work memory of
  const TaskTime* task = nullptr;
};

/// A value is alive from the task that writes it, without reading what was there before, to the
/// last task that uses it before the next such write. What is read first was there all along.
std::vector<std::vector<Held>> heldBy(const Trace& trace, const Trace::Step& step) {
  std::vector<std::vector<Held>> held(trace.numDevices());
  struct Key {
    std::int32_t replica;
    std::int32_t buffer;
    std::int32_t slot;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, Held> alive;
  const auto devices = trace.devices.size();
  const auto release = [&](const Key& key, const Held& value) {
    const auto device =
        static_cast<std::size_t>(trace.buffers[static_cast<std::size_t>(key.buffer)].device);
    held[static_cast<std::size_t>(key.replica) * devices + device].push_back(value);
  };
  for (const TaskTime& time : step) {
    const TracedTask& task = trace.taskOf(time);
    const TracedSubject& subject = trace.subjectOf(task);
    for (const Touch& touch : subject.touches) {
      const Key key{time.replica, touch.buffer, trace.slotOf(task, touch.buffer, time.round)};
      const std::int64_t bytes = trace.buffers[static_cast<std::size_t>(touch.buffer)].bytes;
      const std::int64_t begin = touch.reads ? Trace::beginOf(step) : time.start;
      const auto [known, isNew] =
          alive.try_emplace(key, Held{begin, time.end, bytes, touch.buffer, nullptr});
      if (!isNew && !touch.reads && time.start >= known->second.end) {
        release(key, known->second);
        known->second = {time.start, time.end, bytes, touch.buffer, nullptr};
      }
      known->second.end = std::max(known->second.end, time.end);
    }
    if (subject.workBytes > 0) {
      held[trace.deviceOf(time)].push_back({time.start, time.end, subject.workBytes, -1, &time});
    }
  }
  for (const auto& [key, value] : alive) {
    release(key, value);
  }
  return held;
}

void addPoints(const std::vector<Held>& held, std::int64_t begin, MemoryUse& use) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;
  for (const Held& value : held) {
    if (value.begin < value.end) {
      changes.emplace_back(value.begin, value.bytes);
      changes.emplace_back(value.end, -value.bytes);
    }
  }
  std::ranges::sort(changes);  // at one time what is freed comes first
  std::int64_t now = use.stateBytes;
  use.points.push_back({begin, now});
  for (std::size_t i = 0; i < changes.size(); ++i) {
    now += changes[i].second;
    const bool more = i + 1 < changes.size() && changes[i + 1].first == changes[i].first;
    if (!more && changes[i].first == begin) {
      use.points.back().bytes = now;
    } else if (!more && now != use.points.back().bytes) {
      use.points.push_back({changes[i].first, now});
    }
  }
  const auto& top = *std::ranges::max_element(use.points, {}, &MemoryPoint::bytes);
  use.peak = top.bytes;
  use.peakTime = top.time;
}

void addTensors(const Trace& trace,
                std::size_t device,
                const std::vector<Held>& held,
                MemoryUse& use) {
  const auto own = static_cast<std::int32_t>(device % trace.devices.size());
  for (const TracedBuffer& buffer : trace.buffers) {
    if (buffer.state && buffer.device == own) {
      use.atPeak.push_back({buffer.name, buffer.bytes * buffer.slots, true});
    }
  }
  std::map<std::string, std::int64_t> byName;  // slots of a ring together
  for (const Held& value : held) {
    if (value.begin <= use.peakTime && use.peakTime < value.end) {
      byName[value.task != nullptr ? fmt::format("work memory of {}", trace.nameOf(*value.task))
                                   : trace.buffers[static_cast<std::size_t>(value.buffer)].name] +=
          value.bytes;
    }
  }
  for (const auto& [name, bytes] : byName) {
    use.atPeak.push_back({name, bytes, false});
  }
  std::ranges::stable_sort(
      use.atPeak, std::ranges::greater{}, [](const HeldTensor& tensor) { return tensor.bytes; });
}

}  // namespace

std::vector<MemoryUse> memoryUse(const Trace& trace, const Trace::Step& step) {
  const std::vector<std::vector<Held>> held = heldBy(trace, step);
  std::vector<MemoryUse> uses(trace.numDevices());
  for (std::size_t d = 0; d < uses.size(); ++d) {
    const TracedDevice& plan = trace.devices[d % trace.devices.size()];
    uses[d].stateBytes = plan.ownBytes + plan.stateBytes;
    uses[d].planned = plan.ownBytes + plan.stateBytes + plan.transientBytes;
    addPoints(held[d], Trace::beginOf(step), uses[d]);
    addTensors(trace, d, held[d], uses[d]);
  }
  return uses;
}

std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& points, std::size_t most) {
  if (points.size() <= most || points.empty()) {
    return points;
  }
  const std::int64_t begin = points.front().time;
  const std::int64_t width =
      std::max<std::int64_t>((points.back().time - begin) / static_cast<std::int64_t>(most), 1);
  std::vector<MemoryPoint> result;
  for (const MemoryPoint& point : points) {
    const std::int64_t time = begin + (point.time - begin) / width * width;
    if (result.empty() || result.back().time != time) {
      result.push_back({time, point.bytes});
    } else {
      result.back().bytes = std::max(result.back().bytes, point.bytes);
    }
  }
  return result;
}

}  // namespace sluice::profile
