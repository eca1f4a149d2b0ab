// What a Trace keeps of a Program.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "sluice/profile/trace.h"

namespace sluice::profile {
namespace {

using program::LaneKind;
using program::Program;
using program::Task;
using program::TaskKind;

std::string laneName(const program::Lane& lane) {
  return lane.kind == LaneKind::Exchange ? fmt::format("exchange from {}", lane.peer)
                                         : std::string(program::name(lane.kind));
}

/// The buffers of the program that a task of this kind and subject uses, in order of use.
std::vector<Touch> usesOf(const Program& p, TaskKind kind, std::size_t subject) {
  std::vector<Touch> uses;
  const auto add = [&](std::int32_t buffer, bool reads) {
    if (buffer >= 0) {
      uses.push_back({.buffer = buffer, .reads = reads, .writes = !reads});
    }
  };
  const auto id = [](program::BufferId buffer) {
    return static_cast<std::int32_t>(buffer.index());
  };
  const auto copy = [&](const program::Transfer& transfer) {
    add(id(transfer.from), true);
    add(id(transfer.to), false);
  };
  switch (kind) {
    case TaskKind::Run:
      for (const device::KernelCall& call : p.segments[subject].calls) {
        std::ranges::for_each(call.inputs, [&](std::int32_t b) { add(b, true); });
        std::ranges::for_each(call.outputs, [&](std::int32_t b) { add(b, false); });
        add(call.scratch, false);
      }
      break;
    case TaskKind::Feed:
      add(id(p.feeds[subject].buffer), false);
      break;
    case TaskKind::Drain:
      add(id(p.drains[subject].buffer), true);
      break;
    case TaskKind::Transfer:
      copy(p.transfers[subject]);
      break;
    case TaskKind::Reduce:
      add(id(p.collectives[subject].from), true);
      add(id(p.collectives[subject].to), false);
      break;
    case TaskKind::Send:
    case TaskKind::Receive:
      if (p.messages[subject].transfer >= 0) {
        copy(p.transfers[static_cast<std::size_t>(p.messages[subject].transfer)]);
      }
      break;
    case TaskKind::Barrier:
      break;
  }
  return uses;
}

/// Bytes of the buffers that `isLocal`, where the segment's kernels need most of them at once. A
/// buffer is alive from its first use to its last.
template <class IsLocal>
std::int64_t workBytes(const Program& p, const program::Segment& segment, const IsLocal& isLocal) {
  struct Life {
    std::size_t first;
    std::size_t last;
  };
  std::map<std::int32_t, Life> lives;
  for (std::size_t c = 0; c < segment.calls.size(); ++c) {
    const device::KernelCall& call = segment.calls[c];
    const auto use = [&](std::int32_t buffer) {
      if (buffer >= 0 && isLocal(buffer)) {
        lives.try_emplace(buffer, Life{c, c}).first->second.last = c;
      }
    };
    std::ranges::for_each(call.inputs, use);
    std::ranges::for_each(call.outputs, use);
    use(call.scratch);
  }
  std::vector<std::int64_t> change(segment.calls.size() + 1, 0);
  for (const auto& [buffer, life] : lives) {
    const auto bytes =
        static_cast<std::int64_t>(p.buffers[static_cast<std::size_t>(buffer)].totalBytes());
    change[life.first] += bytes;
    change[life.last + 1] -= bytes;
  }
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const std::int64_t step : change) {
    now += step;
    most = std::max(most, now);
  }
  return most;
}

TracedKernel tracedKernel(const device::KernelCall& call, double limitSeconds) {
  const auto whole = [](double value) {  // so that sums of many stay far from the end of 64 bits
    return static_cast<std::int64_t>(std::clamp(std::ceil(value), 0.0, 1e15));
  };
  const ir::Cost cost = ir::costOf(call.view());
  return {.name = fmt::format("{} ({}, {})", call.name, call.def->name, call.choice.implementation),
          .flops = whole(cost.flops),
          .bytes = whole(cost.bytesRead + cost.bytesWritten),
          .limit = whole(limitSeconds * 1e12)};
}

class Copier {
 public:
  Copier(const Program& p, Trace& trace, const KernelLimit& limit)
      : p_(p), t_(trace), limit_(limit), users_(p.buffers.size(), 0) {}

  void run() {
    for (const program::Lane& lane : p_.lanes) {
      TracedLane& info =
          t_.lanes.emplace_back(TracedLane{lane.device, lane.kind, laneName(lane), {}, lane.peer});
      for (const Task& task : lane.tasks) {
        const auto waits = p_.waitsOf(task);
        info.tasks.push_back({.subject = subjectOf(task),
                              .microBatch = task.microBatch,
                              .waits = {waits.begin(), waits.end()},
                              .slots = {}});
      }
    }
    keepBuffers();
    for (std::size_t s = 0; s < t_.subjects.size(); ++s) {
      settle(t_.subjects[s], uses_[s]);
    }
    copySlots();
  }

 private:
  std::int32_t subjectOf(const Task& task) {
    const auto number = static_cast<std::int32_t>(t_.subjects.size());
    const auto [known, isNew] = numbers_.try_emplace({task.kind, task.subject}, number);
    if (isNew) {
      t_.subjects.push_back(describe(task));
      uses_.push_back(usesOf(p_, task.kind, static_cast<std::size_t>(task.subject)));
      segments_.push_back(task.kind == TaskKind::Run ? task.subject : -1);
      for (const Touch& use : merged(uses_.back())) {
        ++users_[static_cast<std::size_t>(use.buffer)];
      }
    }
    return known->second;
  }

  /// The transfer of a message that has one; -1 for other tasks.
  std::int32_t messageTransfer(const Task& task) const {
    return task.kind == TaskKind::Send || task.kind == TaskKind::Receive
               ? p_.messages[static_cast<std::size_t>(task.subject)].transfer
               : -1;
  }

  TracedSubject describe(const Task& task) const {
    TracedSubject info{.kind = task.kind,
                       .name = program::subjectName(p_, task),
                       .category = std::string(program::name(task.kind)),
                       .touches = {}};
    const auto subject = static_cast<std::size_t>(task.subject);
    if (task.kind == TaskKind::Run) {
      const program::Segment& segment = p_.segments[subject];
      info.category = parallel::name(segment.kind);
      info.oncePerRound = segment.oncePerRound();
      info.stage = info.oncePerRound ? -1 : segment.stage;
      for (const device::KernelCall& call : segment.calls) {
        info.kernels.push_back(tracedKernel(call, limit_ ? limit_(segment.device, call) : 0));
      }
      return info;
    }
    info.name = fmt::format("{} {}", info.category, info.name);
    if (task.kind == TaskKind::Transfer) {
      const program::Transfer& transfer = p_.transfers[subject];
      info.oncePerRound = transfer.oncePerRound;
      info.bytes = static_cast<std::int64_t>(transfer.bytes);
    } else if (task.kind == TaskKind::Reduce) {
      info.oncePerRound = p_.collectives[subject].oncePerRound;
      info.bytes = static_cast<std::int64_t>(p_.collectives[subject].type.bytes());
    } else if (task.kind == TaskKind::Feed) {
      info.bytes = static_cast<std::int64_t>(p_.feeds[subject].type.bytes());
    } else if (task.kind == TaskKind::Drain) {
      info.rule = p_.drains[subject].rule;
      info.bytes = static_cast<std::int64_t>(p_.drains[subject].type.bytes());
    } else if (const std::int32_t moved = messageTransfer(task); moved >= 0) {
      info.bytes = static_cast<std::int64_t>(p_.transfers[static_cast<std::size_t>(moved)].bytes);
    }
    return info;
  }

  /// One entry per buffer: a value that is read after it was written here is not read from before.
  static std::vector<Touch> merged(std::span<const Touch> uses) {
    std::map<std::int32_t, Touch> byBuffer;
    for (const Touch& use : uses) {
      const auto [known, isNew] = byBuffer.try_emplace(use.buffer, use);
      known->second.writes = known->second.writes || use.writes;
    }
    std::vector<Touch> result;
    result.reserve(byBuffer.size());
    for (const auto& [buffer, touch] : byBuffer) {
      result.push_back(touch);
    }
    return result;
  }

  bool isShared(std::size_t buffer) const {
    return users_[buffer] > 1 || p_.buffers[buffer].slots > 1;
  }

  void keepBuffers() {
    kept_.assign(p_.buffers.size(), -1);
    for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
      const program::Buffer& buffer = p_.buffers[b];
      const bool state = buffer.region == program::Region::State;
      if (buffer.isRemote() || buffer.bytes == 0 || (!state && !isShared(b))) {
        continue;
      }
      kept_[b] = static_cast<std::int32_t>(t_.buffers.size());
      t_.buffers.push_back({.name = buffer.name,
                            .device = buffer.device,
                            .state = state,
                            .bytes = static_cast<std::int64_t>(buffer.bytes),
                            .slots = buffer.slots});
    }
  }

  void settle(TracedSubject& subject, std::span<const Touch> uses) {
    for (Touch touch : merged(uses)) {
      const auto buffer = static_cast<std::size_t>(touch.buffer);
      if (kept_[buffer] >= 0 && p_.buffers[buffer].region == program::Region::Transient) {
        touch.buffer = kept_[buffer];
        subject.touches.push_back(touch);
      }
    }
    const std::int32_t segment = segments_[static_cast<std::size_t>(&subject - t_.subjects.data())];
    if (segment >= 0) {
      subject.workBytes =
          workBytes(p_, p_.segments[static_cast<std::size_t>(segment)], [&](std::int32_t b) {
            const auto buffer = static_cast<std::size_t>(b);
            return p_.buffers[buffer].region == program::Region::Transient && !isShared(buffer);
          });
    }
  }

  void copySlots() {
    for (std::size_t l = 0; l < p_.lanes.size(); ++l) {
      for (std::size_t i = 0; i < p_.lanes[l].tasks.size(); ++i) {
        for (program::Slot slot : p_.slotsOf(p_.lanes[l].tasks[i])) {
          const std::int32_t kept = kept_[slot.buffer.index()];
          if (kept >= 0) {
            slot.buffer = program::BufferId(static_cast<std::size_t>(kept));
            t_.lanes[l].tasks[i].slots.push_back(slot);
          }
        }
      }
    }
  }

  const Program& p_;
  Trace& t_;
  const KernelLimit& limit_;
  std::map<std::pair<TaskKind, std::int32_t>, std::int32_t> numbers_;
  std::vector<std::vector<Touch>> uses_;  // by subject, with the program's numbers of buffers
  std::vector<std::int32_t> segments_;    // by subject; -1: none
  std::vector<std::int32_t> users_;       // subjects that use a buffer
  std::vector<std::int32_t> kept_;        // number in the trace; -1: not kept
};

}  // namespace

Trace::Trace(const Program& p, const KernelLimit& limit)
    : name(p.name), training(p.training), microBatchesPerRound(p.microBatchesPerRound) {
  for (const program::DevicePlan& plan : p.devices) {
    devices.push_back({static_cast<std::int64_t>(plan.ownBytes),
                       static_cast<std::int64_t>(plan.stateBytes),
                       static_cast<std::int64_t>(plan.transientBytes)});
  }
  Copier(p, *this, limit).run();
}

}  // namespace sluice::profile
