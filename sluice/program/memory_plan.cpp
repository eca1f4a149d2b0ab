#include "sluice/program/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/schedule/offsets.h"

namespace sluice::program {
namespace {

/// First and last call that touches each buffer; first is the write.
struct Extent {
  std::int64_t first = -1;
  std::int64_t last = -1;
  bool touched() const { return first >= 0; }
  void touch(std::int64_t time) {
    first = first < 0 ? time : std::min(first, time);
    last = std::max(last, time);
  }
};

std::vector<Extent> extentsOf(const Emitted& emitted) {
  std::vector<Extent> extents(emitted.buffers.size());
  for (std::size_t t = 0; t < emitted.calls.size(); ++t) {
    const device::KernelCall& call = emitted.calls[t].call;
    const auto time = static_cast<std::int64_t>(t);
    for (const std::int32_t b : call.inputs) {
      extents[static_cast<std::size_t>(b)].touch(time);
    }
    for (const std::int32_t b : call.outputs) {
      extents[static_cast<std::size_t>(b)].touch(time);
    }
    if (call.scratch >= 0) {
      extents[static_cast<std::size_t>(call.scratch)].touch(time);
    }
  }
  return extents;
}

const parallel::SegmentInfo& segmentOf(const Emitted& emitted, std::size_t call) {
  return emitted.segments[static_cast<std::size_t>(emitted.calls[call].segment)];
}

/// Renames buffers lazily; chains resolve to the last name.
class Renaming {
 public:
  explicit Renaming(std::size_t count) : to_(count) { std::iota(to_.begin(), to_.end(), 0); }
  std::int32_t operator()(std::int32_t b) {
    while (to_[static_cast<std::size_t>(b)] != b) {
      b = to_[static_cast<std::size_t>(b)];
    }
    return b;
  }
  void rename(std::int32_t from, std::int32_t to) { to_[static_cast<std::size_t>(from)] = to; }

 private:
  std::vector<std::int32_t> to_;
};

void applyRenaming(Emitted& emitted, Renaming& renaming) {
  for (EmittedCall& e : emitted.calls) {
    for (std::int32_t& b : e.call.inputs) {
      b = renaming(b);
    }
    for (std::int32_t& b : e.call.outputs) {
      b = renaming(b);
    }
  }
}

/// A producer may write into the variable's slice when nothing reads the variable between the
/// producer and the copy, nor the value after it, and both run equally often.
void coalesceAssigns(Emitted& emitted) {
  const std::vector<Extent> extents = extentsOf(emitted);
  Renaming renaming(emitted.buffers.size());
  std::vector<bool> dropped(emitted.calls.size(), false);
  for (std::size_t t = 0; t < emitted.calls.size(); ++t) {
    const EmittedCall& copy = emitted.calls[t];
    if (!copy.assignCopy) {
      continue;
    }
    const std::int32_t value = copy.call.inputs[0];
    const std::int32_t slice = copy.call.outputs[0];
    const Extent& extent = extents[static_cast<std::size_t>(value)];
    if (emitted.uses[static_cast<std::size_t>(value)] != BufferUse::Local ||
        extent.last != static_cast<std::int64_t>(t)) {
      continue;
    }
    const auto producerTime = static_cast<std::size_t>(extent.first);
    const EmittedCall& producer = emitted.calls[producerTime];
    bool safe = producer.segment == copy.segment;
    for (std::size_t u = producerTime; safe && u < t; ++u) {
      const device::KernelCall& call = emitted.calls[u].call;
      const bool reads = std::ranges::find(call.inputs, slice) != call.inputs.end();
      const bool writes = std::ranges::find(call.outputs, slice) != call.outputs.end();
      if (writes || (reads && u > producerTime)) {
        safe = false;
      } else if (reads) {
        // The producer itself reads the old value: fine if it works element by element.
        for (std::size_t i = 0; i < call.inputs.size(); ++i) {
          safe = safe && (call.inputs[i] != slice ||
                          (producer.elementwise && call.inputTypes[i] == copy.call.inputTypes[0] &&
                           call.choice.inputs[i].isPlain()));
        }
      }
    }
    if (safe) {
      renaming.rename(value, slice);
      dropped[t] = true;
    }
  }
  applyRenaming(emitted, renaming);
  std::size_t t = 0;
  std::erase_if(emitted.calls, [&](const EmittedCall&) { return dropped[t++]; });
}

/// An element-wise result takes the memory of an operand of its type and layout that dies there.
void reuseOperands(Emitted& emitted) {
  std::vector<Extent> extents = extentsOf(emitted);
  Renaming renaming(emitted.buffers.size());
  for (std::size_t t = 0; t < emitted.calls.size(); ++t) {
    EmittedCall& e = emitted.calls[t];
    if (!e.elementwise) {
      continue;
    }
    const auto time = static_cast<std::int64_t>(t);
    std::vector<std::int32_t> taken;
    for (std::size_t o = 0; o < e.call.outputs.size(); ++o) {
      const std::int32_t out = e.call.outputs[o];
      const auto outIndex = static_cast<std::size_t>(out);
      if (emitted.uses[outIndex] != BufferUse::Local || extents[outIndex].first != time) {
        continue;
      }
      for (std::size_t i = 0; i < e.call.inputs.size(); ++i) {
        const std::int32_t in = renaming(e.call.inputs[i]);
        const auto inIndex = static_cast<std::size_t>(in);
        if (emitted.uses[inIndex] == BufferUse::Local && extents[inIndex].last == time &&
            emitted.calls[static_cast<std::size_t>(extents[inIndex].first)].segment == e.segment &&
            e.call.inputTypes[i] == e.call.outputTypes[o] &&
            e.call.choice.inputs[i] == e.call.choice.outputs[o] &&
            std::ranges::find(taken, in) == taken.end()) {
          renaming.rename(out, in);
          extents[inIndex].last = extents[outIndex].last;
          taken.push_back(in);
          break;
        }
      }
    }
  }
  applyRenaming(emitted, renaming);
}

std::string largestAt(const Emitted& emitted,
                      const std::vector<schedule::Lifetime>& lifetimes,
                      const std::vector<std::size_t>& ids,
                      std::int64_t time) {
  std::vector<std::size_t> alive;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (lifetimes[i].begin <= time && time < lifetimes[i].end) {
      alive.push_back(i);
    }
  }
  std::ranges::stable_sort(
      alive, [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  alive.resize(std::min<std::size_t>(alive.size(), 10));
  std::string text;
  for (const std::size_t i : alive) {
    text += fmt::format(
        "\n  {:>10}  {}", formatBytes(lifetimes[i].bytes), emitted.buffers[ids[i]].name);
  }
  return text;
}

std::int64_t timeOfPeak(const std::vector<schedule::Lifetime>& lifetimes) {
  std::map<std::int64_t, std::int64_t> changes;
  for (const schedule::Lifetime& l : lifetimes) {
    changes[l.begin] += static_cast<std::int64_t>(l.bytes);
    changes[l.end] -= static_cast<std::int64_t>(l.bytes);
  }
  std::int64_t alive = 0;
  std::int64_t most = -1;
  std::int64_t when = 0;
  for (const auto& [time, change] : changes) {
    alive += change;
    if (alive > most) {
      most = alive;
      when = time;
    }
  }
  return when;
}

}  // namespace

std::string formatBytes(std::size_t bytes) {
  constexpr std::size_t kKiB = 1024;
  const auto value = static_cast<double>(bytes);
  if (bytes < 10 * kKiB) {
    return fmt::format("{} B", bytes);
  }
  if (bytes < 10 * kKiB * kKiB) {
    return fmt::format("{:.1f} KiB", value / 1024);
  }
  return fmt::format("{:.1f} MiB", value / (1024 * 1024));
}

void shareBuffers(Emitted& emitted) {
  coalesceAssigns(emitted);
  reuseOperands(emitted);
}

std::vector<PlanSummary> placeBuffers(Emitted& emitted, const Round& round, std::int32_t devices) {
  const std::vector<Extent> extents = extentsOf(emitted);
  const auto end = static_cast<std::int64_t>(emitted.calls.size()) + 1;
  std::int64_t loopEnd = 0;
  for (std::size_t t = 0; t < emitted.calls.size(); ++t) {
    if (segmentOf(emitted, t).kind != SegmentKind::Update) {
      loopEnd = static_cast<std::int64_t>(t) + 1;
    }
  }
  std::vector<std::vector<std::size_t>> ids(static_cast<std::size_t>(devices));
  std::vector<std::vector<schedule::Lifetime>> lifetimes(ids.size());
  for (std::size_t b = 0; b < emitted.buffers.size(); ++b) {
    const Extent& extent = extents[b];
    Buffer& buffer = emitted.buffers[b];
    if (buffer.region == Region::State) {
      continue;
    }
    schedule::Lifetime lifetime{0, end, buffer.totalBytes()};
    switch (emitted.uses[b]) {
      case BufferUse::Packed:
        lifetime.end = std::max(loopEnd, extent.last + 1);
        break;
      case BufferUse::Local:
      case BufferUse::Scratch:
        if (!extent.touched()) {
          buffer.bytes = 0;  // renamed away
          continue;
        }
        if (!round.isShared(b) || round.isSerial(buffer.device)) {
          lifetime = {extent.first, extent.last + 1, buffer.totalBytes()};
        } else if (extent.last < loopEnd) {
          lifetime.end = loopEnd;
        }
        break;
      default:  // another lane touches it, and may be a round ahead
        break;
    }
    ids[static_cast<std::size_t>(buffer.device)].push_back(b);
    lifetimes[static_cast<std::size_t>(buffer.device)].push_back(lifetime);
  }
  std::vector<PlanSummary> summaries;
  for (std::size_t d = 0; d < ids.size(); ++d) {
    const schedule::OffsetPlan plan = schedule::planOffsets(lifetimes[d], kAlignment);
    for (std::size_t i = 0; i < ids[d].size(); ++i) {
      emitted.buffers[ids[d][i]].offset = plan.offsets[i];
    }
    summaries.push_back({plan.peak,
                         plan.lowerBound,
                         largestAt(emitted, lifetimes[d], ids[d], timeOfPeak(lifetimes[d]))});
  }
  return summaries;
}

}  // namespace sluice::program
