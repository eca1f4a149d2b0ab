#include "sluice/program/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/schedule/offsets.h"

namespace sluice::program {
namespace {

using parallel::PhaseSchedule;

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

Table<Extent> extentsOf(const Emitted& emitted) {
  Table<Extent> extents(emitted.buffers.size());
  for (std::size_t t = 0; t < emitted.calls.size(); ++t) {
    const device::KernelCall& call = emitted.calls[t].call;
    const auto time = static_cast<std::int64_t>(t);
    for (const std::int32_t b : call.inputs) {
      extents[b].touch(time);
    }
    for (const std::int32_t b : call.outputs) {
      extents[b].touch(time);
    }
    if (call.scratch >= 0) {
      extents[call.scratch].touch(time);
    }
  }
  return extents;
}

const parallel::SegmentInfo& segmentOf(const Emitted& emitted, std::size_t call) {
  return emitted.segments[emitted.calls[call].segment];
}

/// Renames buffers lazily; chains resolve to the last name.
class Renaming {
 public:
  explicit Renaming(std::size_t count) : to_(count) { std::iota(to_.begin(), to_.end(), 0); }
  std::int32_t operator()(std::int32_t b) {
    while (to_[b] != b) {
      b = to_[b];
    }
    return b;
  }
  void rename(std::int32_t from, std::int32_t to) { to_[from] = to; }

 private:
  Table<std::int32_t> to_;
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
  const Table<Extent> extents = extentsOf(emitted);
  Renaming renaming(emitted.buffers.size());
  std::vector<bool> dropped(emitted.calls.size(), false);
  for (std::size_t t = 0; t < emitted.calls.size(); ++t) {
    const EmittedCall& copy = emitted.calls[t];
    if (!copy.assignCopy) {
      continue;
    }
    const std::int32_t value = copy.call.inputs[0];
    const std::int32_t slice = copy.call.outputs[0];
    const Extent& extent = extents[value];
    if (emitted.uses[value] != BufferUse::Local || extent.last != static_cast<std::int64_t>(t)) {
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
  Table<Extent> extents = extentsOf(emitted);
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
            emitted.calls[extents[inIndex].first].segment == e.segment &&
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

/// The stage whose kernels first touch each buffer; -1 for those of the update.
Table<std::int32_t> stagesOfBuffers(const Emitted& emitted) {
  Table<std::int32_t> stages(emitted.buffers.size(), -1);
  for (std::size_t t = emitted.calls.size(); t-- > 0;) {
    const parallel::SegmentInfo& info = segmentOf(emitted, t);
    const device::KernelCall& call = emitted.calls[t].call;
    for (const std::vector<std::int32_t>* list : {&call.inputs, &call.outputs}) {
      for (const std::int32_t b : *list) {
        stages[b] = info.oncePerRound() ? -1 : info.stage;
      }
    }
  }
  return stages;
}

std::string largestAt(const Emitted& emitted,
                      const std::vector<schedule::Lifetime>& lifetimes,
                      const std::vector<std::size_t>& ids,
                      std::int64_t time) {
  std::vector<std::size_t> alive;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (lifetimes[i].covers(time)) {
      alive.push_back(i);
    }
  }
  std::ranges::stable_sort(
      alive, [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  alive.resize(std::min<std::size_t>(alive.size(), 10));
  const Table<std::int32_t> stageOf = stagesOfBuffers(emitted);
  std::string text;
  for (const std::size_t i : alive) {
    const Buffer& buffer = emitted.buffers[ids[i]];
    text += fmt::format("\n  {:>10}  {}{}{}",
                        formatBytes(lifetimes[i].bytes),
                        buffer.name,
                        stageOf[ids[i]] < 0 ? "" : fmt::format(" of stage {}", stageOf[ids[i]]),
                        buffer.slots == 1 ? "" : fmt::format(", {} slots", buffer.slots));
  }
  return text;
}

/// "phase 3 (backward 3)": the segment whose call runs at this time.
std::string segmentTextAt(const Emitted& emitted, std::int64_t time) {
  if (time < 0 || time >= static_cast<std::int64_t>(emitted.calls.size())) {
    return "";
  }
  const parallel::SegmentInfo& info = segmentOf(emitted, static_cast<std::size_t>(time));
  return fmt::format("phase {} ({})", info.stage, parallel::name(info.kind));
}

std::int64_t timeOfPeak(const std::vector<schedule::Lifetime>& lifetimes) {
  std::map<std::int64_t, std::int64_t> changes;
  std::int64_t alive = 0;
  for (const schedule::Lifetime& l : lifetimes) {
    changes[l.begin] += static_cast<std::int64_t>(l.bytes);
    changes[l.end] -= static_cast<std::int64_t>(l.bytes);
    alive += l.wraps() ? static_cast<std::int64_t>(l.bytes) : 0;
  }
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

/// How long each transient buffer lives, in calls of one round.
class Lifetimes {
 public:
  Lifetimes(const Emitted& emitted, const Round& round)
      : emitted_(emitted), round_(round), extents_(extentsOf(emitted)) {
    segments_.resize(emitted.segments.size());
    for (std::size_t t = 0; t < emitted.calls.size(); ++t) {
      if (!isLate(emitted.calls[t].segment)) {
        loopEnd_ = static_cast<std::int64_t>(t) + 1;
      }
      segments_[emitted.calls[t].segment].touch(static_cast<std::int64_t>(t));
    }
  }

  /// Nothing for a buffer that nothing uses any more.
  std::optional<schedule::Lifetime> operator()(std::size_t b) const {
    const Extent& extent = extents_[b];
    const Buffer& buffer = emitted_.buffers[b];
    schedule::Lifetime lifetime{0, end(), buffer.totalBytes()};
    const BufferUse use = emitted_.uses[b];
    const bool local = use == BufferUse::Local || use == BufferUse::Scratch;
    if (local && !extent.touched()) {
      return std::nullopt;
    }
    const schedule::Lifetime ownUse{extent.first, extent.last + 1, buffer.totalBytes()};
    if (use == BufferUse::Packed && emitted_.keepsPacked) {
      return lifetime;
    }
    if (use == BufferUse::Packed) {
      if (round_.microBatches() == 1 && round_.isSerial(buffer.device)) {
        return ownUse;  // no other micro-batch reads it: gradients may take its memory
      }
      lifetime.end = std::max(loopEnd_, extent.last + 1);
    } else if (round_.streams() && use != BufferUse::Remote && use != BufferUse::Constant &&
               use != BufferUse::Mirror) {
      return inStreams(b);
    } else if (local && (!round_.isShared(BufferId(b)) || round_.isSerial(buffer.device))) {
      return ownUse;
    } else if (local && extent.last < loopEnd_) {
      lifetime.end = loopEnd_;
    }  // else another lane touches it, and may be a round ahead
    return lifetime;
  }

 private:
  std::int64_t end() const { return static_cast<std::int64_t>(emitted_.calls.size()) + 1; }

  /// In a program that streams memory is reused between lanes: tasks wait for it (Round).
  schedule::Lifetime inStreams(std::size_t b) const {
    const Extent& extent = extents_[b];
    const Buffer& buffer = emitted_.buffers[b];
    const auto [first, last] = round_.segmentsOf(BufferId(b));
    const schedule::Lifetime whole{0, end(), buffer.totalBytes()};
    if (first < 0) {
      return whole;
    }
    const bool written = round_.isWrittenElsewhere(BufferId(b));
    const bool read = round_.isReadElsewhere(BufferId(b));
    // What an exchange of the loop makes for the update alone is there before it.
    const bool update = extent.first >= loopEnd_ && isLate(first);
    if (!update && !round_.isGrouped(buffer.device)) {
      const bool shared = written || read || round_.isShared(BufferId(b));
      return !shared ? schedule::Lifetime{extent.first, extent.last + 1, buffer.totalBytes()}
             : extent.last < loopEnd_ && !written && !read
                 ? schedule::Lifetime{0, loopEnd_, buffer.totalBytes()}
                 : whole;
    }
    schedule::Lifetime lifetime{extent.first, extent.last + 1, buffer.totalBytes()};
    const bool spans = round_.spansTurns(BufferId(b));
    if (written || read || spans) {
      lifetime.begin = beginOf(first, spans);
      lifetime.end = endOf(last, spans);
    }
    // Kernels may use it, or a sum over replicas on their behalf.
    const schedule::Lifetime used = lifetime;
    // Others bring it while the segment before runs, and take it away while the next one does.
    if (written) {
      if (round_.overlaps()) {
        lifetime.begin = beginBefore(first, spans, buffer.device, update ? loopEnd_ : 0);
      }
      if (round_.updates() == PhaseSchedule::Batch && isUpdate(first)) {
        lifetime.begin = std::min(lifetime.begin, beginOf(firstOfUpdate(first), spans));
      }
      const std::int32_t arrival = round_.segmentAtArrival(BufferId(b));
      if (arrival >= 0 && arrival < first) {
        const std::int64_t then = beginOf(arrival, spans);
        lifetime.begin = lifetime.begin > used.begin ? then : std::min(lifetime.begin, then);
      }
    }
    // What is only packed would make room at once, and the next one would have to wait for that.
    const bool packed = written && emitted_.segments[last].oncePerRound() && extent.last < loopEnd_;
    if ((read || packed) && round_.overlaps()) {
      lifetime.end = endBehind(last, spans, buffer.device);
    }
    // Not before that, whatever the kernels do that made it: sums come one behind the other.
    if (round_.isSummedBehindLoop(BufferId(b)) && lifetime.end >= used.end) {
      lifetime.end = std::max(lifetime.end, loopEnd_);
    }
    const bool fromRoundBefore = lifetime.begin > used.begin;
    const bool intoNextRound = lifetime.end < used.end;
    const bool meetsItself = (fromRoundBefore && intoNextRound) ||
                             ((fromRoundBefore || intoNextRound) && !lifetime.wraps());
    return meetsItself ? whole : lifetime;
  }

  /// Segments of the device with calls, of a group or not, from `from` in a direction.
  template <class F>
  void eachSegment(std::int32_t device, const F& visit) const {
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      if (segments_[s].touched() && emitted_.segments[s].device == device) {
        visit(static_cast<std::int32_t>(s), segments_[s]);
      }
    }
  }

  bool isLate(std::int32_t segment) const {
    const parallel::SegmentInfo& info = emitted_.segments[segment];
    return info.kind == SegmentKind::Update && !info.inLoop;
  }

  bool isUpdate(std::int32_t segment) const {
    return emitted_.segments[segment].kind == SegmentKind::Update;
  }
  /// Whether both are of one phase's update, or of the one behind the loop.
  bool areOneUpdate(std::int32_t a, std::int32_t b) const {
    const parallel::SegmentInfo& x = emitted_.segments[a];
    const parallel::SegmentInfo& y = emitted_.segments[b];
    return isUpdate(a) && isUpdate(b) && x.inLoop == y.inLoop && x.stage == y.stage &&
           x.device == y.device;
  }
  std::int32_t firstOfUpdate(std::int32_t segment) const {
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      if (segments_[s].touched() && areOneUpdate(static_cast<std::int32_t>(s), segment)) {
        return static_cast<std::int32_t>(s);
      }
    }
    return segment;
  }
  /// Whether a neighbour runs for long enough to load or save something meanwhile. What runs once
  /// per round does not, unless it is a turn of the same update.
  bool isTurn(std::int32_t neighbour, std::int32_t segment) const {
    return !emitted_.segments[neighbour].oncePerRound() ||
           (round_.updates() == PhaseSchedule::Interleaving && areOneUpdate(neighbour, segment));
  }

  /// Where the segment, or all of its group, begins and ends.
  std::int64_t beginOf(std::int32_t segment, bool wholeGroup) const {
    std::int64_t begin = segments_[segment].first;
    if (wholeGroup) {
      eachSegment(emitted_.segments[segment].device, [&](std::int32_t s, const Extent& extent) {
        begin =
            round_.groupOf(s) == round_.groupOf(segment) ? std::min(begin, extent.first) : begin;
      });
    }
    return begin;
  }
  std::int64_t endOf(std::int32_t segment, bool wholeGroup) const {
    std::int64_t last = segments_[segment].last;
    if (wholeGroup) {
      eachSegment(emitted_.segments[segment].device, [&](std::int32_t s, const Extent& extent) {
        last = round_.groupOf(s) == round_.groupOf(segment) ? std::max(last, extent.last) : last;
      });
    }
    return last + 1;
  }

  /// The begin of the loop segment that runs before; from the first one on, that is the last one of
  /// the round before. Not before `limit`.
  std::int64_t beginBefore(std::int32_t segment,
                           bool wholeGroup,
                           std::int32_t device,
                           std::int64_t limit) const {
    const std::int64_t begin = beginOf(segment, wholeGroup);
    std::int32_t before = -1;
    std::int32_t lastOfAll = -1;
    eachSegment(device, [&](std::int32_t s, const Extent& extent) {
      const bool loop = !emitted_.segments[s].oncePerRound();
      before = extent.last < begin && (isTurn(s, segment) || limit > 0) ? s : before;
      lastOfAll = loop || lastOfAll < 0 ? s : lastOfAll;
    });
    return std::max(limit, beginOf(before >= 0 ? before : lastOfAll, wholeGroup));
  }
  std::int64_t endBehind(std::int32_t segment, bool wholeGroup, std::int32_t device) const {
    const std::int64_t last = endOf(segment, wholeGroup);
    std::int32_t behind = -1;
    std::int32_t firstOfAll = -1;
    eachSegment(device, [&](std::int32_t s, const Extent& extent) {
      const bool loop = !emitted_.segments[s].oncePerRound();
      const bool late = last > loopEnd_;
      behind = behind < 0 && extent.first >= last && (isTurn(s, segment) || late) ? s : behind;
      firstOfAll = firstOfAll < 0 && loop ? s : firstOfAll;
    });
    if (behind < 0 && firstOfAll < 0) {
      return end();
    }
    return endOf(behind >= 0 ? behind : firstOfAll, wholeGroup);
  }

  const Emitted& emitted_;
  const Round& round_;
  Table<Extent> extents_;
  Table<Extent> segments_;  // by segment: its calls
  std::int64_t loopEnd_ = 0;
};

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

Table<PlanSummary> placeBuffers(Emitted& emitted, const Round& round, std::int32_t devices) {
  const Lifetimes lifetimeOf(emitted, round);
  const std::size_t arenas = static_cast<std::size_t>(devices) + 1;  // remote memory comes last
  std::vector<std::vector<std::size_t>> ids(arenas);
  std::vector<std::vector<schedule::Lifetime>> lifetimes(arenas);
  for (std::size_t b = 0; b < emitted.buffers.size(); ++b) {
    Buffer& buffer = emitted.buffers[b];
    if (buffer.region == Region::State) {
      continue;
    }
    const std::optional<schedule::Lifetime> lifetime = lifetimeOf(b);
    if (!lifetime) {
      buffer.bytes = 0;  // renamed away
      continue;
    }
    const std::size_t arena =
        buffer.isRemote() ? arenas - 1 : static_cast<std::size_t>(buffer.device);
    ids[arena].push_back(b);
    lifetimes[arena].push_back(*lifetime);
  }
  Table<PlanSummary> summaries;
  for (std::size_t d = 0; d < ids.size(); ++d) {
    const std::size_t alignment =
        ids[d].empty() ? kAlignment : emitted.buffers[ids[d].front()].alignment;
    const schedule::OffsetPlan plan = schedule::planOffsets(lifetimes[d], alignment);
    for (std::size_t i = 0; i < ids[d].size(); ++i) {
      emitted.buffers[ids[d][i]].offset = plan.offsets[i];
    }
    const std::int64_t peak = timeOfPeak(lifetimes[d]);
    summaries.push_back({plan.peak,
                         plan.lowerBound,
                         largestAt(emitted, lifetimes[d], ids[d], peak),
                         round.streams() ? segmentTextAt(emitted, peak) : ""});
  }
  return summaries;
}

}  // namespace sluice::program
