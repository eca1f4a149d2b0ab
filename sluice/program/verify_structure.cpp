#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sluice/program/verify_parts.h"

namespace sluice::program {
namespace {

/// A text that is made only when it is printed: nearly all of them never are.
template <class F>
struct Lazily {
  F make;
};
template <class F>
Lazily(F) -> Lazily<F>;

}  // namespace
}  // namespace sluice::program

template <class F>
struct fmt::formatter<sluice::program::Lazily<F>> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const sluice::program::Lazily<F>& text, Context& context) const {
    return fmt::formatter<std::string>::format(text.make(), context);
  }
};

namespace sluice::program {
namespace {

bool inRange(std::int32_t index, std::size_t size) {
  return index >= 0 && static_cast<std::size_t>(index) < size;
}

/// Checks the records one by one; stops at the first that is wrong. The order matters: a later
/// check indexes with what an earlier one has seen.
class Structure {
 public:
  explicit Structure(const Program& program) : p_(program) {}

  void run() {
    require(p_.microBatchesPerRound >= 1,
            "a round has at least 1 micro-batch, not {}",
            p_.microBatchesPerRound);
    for (const Buffer& buffer : p_.buffers) {
      place(buffer);
    }
    for (const Segment& segment : p_.segments) {
      require(inRange(segment.device, p_.devices.size()),
              "segment {} is on device {} of {}",
              name(segment),
              segment.device,
              p_.devices.size());
      for (const device::KernelCall& call : segment.calls) {
        operands(segment, call);
        sharing(segment, call);
      }
    }
    streams();
    transfers();
    collectives();
    for (std::size_t lane = 0; lane < p_.lanes.size(); ++lane) {
      require(inRange(p_.lanes[lane].device, p_.devices.size()),
              "lane {} is on device {} of {}",
              lane,
              p_.lanes[lane].device,
              p_.devices.size());
      for (std::size_t task = 0; task < p_.lanes[lane].tasks.size(); ++task) {
        subject(lane, task);
        waits(lane, task);
        slots(lane, task);
      }
    }
    allOnceAndInOrder();
  }

 private:
  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) {
      broken(p_, format, std::forward<Args>(args)...);
    }
  }

  void place(const Buffer& buffer) const {
    require(buffer.isRemote() || inRange(buffer.device, p_.devices.size()),
            "buffer '{}' is on device {} of {}",
            buffer.name,
            buffer.device,
            p_.devices.size());
    require(buffer.slots >= 1, "buffer '{}' has {} slots", buffer.name, buffer.slots);
    require(buffer.offset % buffer.alignment == 0,
            "buffer '{}' is at offset {}, not a multiple of {}",
            buffer.name,
            buffer.offset,
            buffer.alignment);
    const DevicePlan& plan = buffer.isRemote() ? p_.remote : p_.devices[buffer.device];
    const bool state = buffer.region == Region::State;
    const std::size_t planned = state ? plan.stateBytes : plan.transientBytes;
    require(buffer.offset <= planned && buffer.totalBytes() <= planned - buffer.offset,
            "buffer '{}' of {} bytes at offset {} ends outside the {} planned {} bytes of {}",
            buffer.name,
            buffer.totalBytes(),
            buffer.offset,
            planned,
            state ? "state" : "transient",
            Lazily{[&] {
              return buffer.isRemote() ? std::string("remote memory")
                                       : fmt::format("device {}", buffer.device);
            }});
  }

  auto callText(const Segment& segment, const device::KernelCall& call) const {
    return Lazily{[&] {
      return fmt::format("{} '{}' of segment {}",
                         call.def == nullptr ? "a call" : call.def->name,
                         call.name,
                         name(segment));
    }};
  }
  auto laneName(std::size_t lane) const {
    return Lazily{[this, lane] { return laneText(p_, lane); }};
  }
  auto taskName(std::size_t lane, std::size_t index) const {
    return Lazily{[this, lane, index] { return taskText(p_, lane, index); }};
  }

  void operand(const Segment& segment,
               const device::KernelCall& call,
               std::int32_t index,
               std::size_t bytes) const {
    require(inRange(index, p_.buffers.size()),
            "{}: operand buffer {} of {}",
            callText(segment, call),
            index,
            p_.buffers.size());
    const Buffer& buffer = p_.buffers[index];
    require(buffer.device == segment.device,
            "{}: the segment is on device {}, buffer '{}' on device {}",
            callText(segment, call),
            segment.device,
            buffer.name,
            buffer.device);
    require(bytes <= buffer.bytes,
            "{}: an operand takes {} bytes, buffer '{}' has {}",
            callText(segment, call),
            bytes,
            buffer.name,
            buffer.bytes);
  }

  void operands(const Segment& segment, const device::KernelCall& call) const {
    require(call.def != nullptr, "call '{}' has no op", call.name);
    require(call.inputs.size() == call.inputTypes.size() &&
                call.inputs.size() == call.choice.inputs.size() &&
                call.outputs.size() == call.outputTypes.size() &&
                call.outputs.size() == call.choice.outputs.size(),
            "{}: operands, types and layouts differ in number",
            callText(segment, call));
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      operand(segment, call, call.inputs[i], call.choice.inputs[i].bytes(call.inputTypes[i]));
    }
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      operand(segment, call, call.outputs[i], call.choice.outputs[i].bytes(call.outputTypes[i]));
    }
    if (call.scratch != -1 || call.choice.scratchBytes > 0) {
      operand(segment, call, call.scratch, call.choice.scratchBytes);
      require(p_.buffers[call.scratch].region == Region::Transient,
              "{}: its scratch is in the state region",
              callText(segment, call));
    }
  }

  /// A kernel may write over its own operand only if both are one buffer.
  void sharing(const Segment& segment, const device::KernelCall& call) const {
    std::vector<std::int32_t> written = call.outputs;
    if (call.scratch >= 0) {
      written.push_back(call.scratch);
    }
    const auto apart = [&](std::int32_t a, std::int32_t b) {
      const Buffer& x = p_.buffers[a];
      const Buffer& y = p_.buffers[b];
      require(!overlap(x, y),
              "{}: it writes '{}' over its own operand '{}'",
              callText(segment, call),
              x.name,
              y.name);
    };
    for (std::size_t i = 0; i < written.size(); ++i) {
      for (std::size_t j = i + 1; j < written.size(); ++j) {
        apart(written[i], written[j]);
      }
      for (const std::int32_t input : call.inputs) {
        if (written[i] != input || written[i] == call.scratch) {
          apart(written[i], input);
        }
      }
    }
  }

  void stream(std::string_view kind, std::string_view name, BufferId id, std::size_t bytes) const {
    require(inRange(id.value, p_.buffers.size()),
            "{} '{}' is in buffer {} of {}",
            kind,
            name,
            id.value,
            p_.buffers.size());
    const Buffer& buffer = p_.buffer(id);
    require(buffer.region == Region::Transient, "{} '{}' is in the state region", kind, name);
    require(bytes <= buffer.bytes,
            "{} '{}' takes {} bytes, its buffer has {}",
            kind,
            name,
            bytes,
            buffer.bytes);
  }

  void streams() const {
    for (const Port& feed : p_.feeds) {
      stream("feed", feed.name, feed.buffer, feed.type.bytes());
    }
    for (const Port& drain : p_.drains) {
      stream("drain", drain.name, drain.buffer, drain.type.bytes());
      require(drain.rule.every >= 1,
              "drain '{}' applies to one in {} micro-batches",
              drain.name,
              drain.rule.every);
    }
    for (const Constant& constant : p_.constants) {
      stream(
          "constant",
          inRange(constant.buffer.value, p_.buffers.size()) ? p_.buffer(constant.buffer).name : "?",
          constant.buffer,
          constant.value.byteCount());
    }
  }

  std::size_t subjects(TaskKind kind) const {
    switch (kind) {
      case TaskKind::Run:
        return p_.segments.size();
      case TaskKind::Feed:
        return p_.feeds.size();
      case TaskKind::Drain:
        return p_.drains.size();
      case TaskKind::Transfer:
        return p_.transfers.size();
      case TaskKind::Reduce:
        return p_.collectives.size();
      case TaskKind::Barrier:
        return p_.barriers ? p_.barriers->groups.size() : 0;
      case TaskKind::Send:
      case TaskKind::Receive:  // only parts have messages, and they are proven together
        break;
    }
    return 0;
  }

  /// Where the memory of a task's subject is; for a transfer the receiving end, unless it is
  /// remote.
  std::int32_t deviceOf(const Lane& lane, const Task& task) const {
    const auto s = static_cast<std::size_t>(task.subject);
    switch (task.kind) {
      case TaskKind::Run:
        return p_.segments[s].device;
      case TaskKind::Feed:
        return p_.buffer(p_.feeds[s].buffer).device;
      case TaskKind::Drain:
        return p_.buffer(p_.drains[s].buffer).device;
      case TaskKind::Transfer: {
        const Buffer& to = p_.buffer(p_.transfers[s].to);
        return to.isRemote() ? p_.buffer(p_.transfers[s].from).device : to.device;
      }
      case TaskKind::Reduce:
        return p_.buffer(p_.collectives[s].to).device;
      case TaskKind::Barrier:
      case TaskKind::Send:
      case TaskKind::Receive:
        return lane.device;
    }
    return -1;
  }

  void subject(std::size_t lane, std::size_t index) const {
    const Task& task = p_.lanes[lane].tasks[index];
    const std::size_t count = subjects(task.kind);
    require(inRange(task.subject, count),
            "task {} of {}: {} {} of {}",
            index,
            laneName(lane),
            name(task.kind),
            task.subject,
            count);
    require(task.microBatch >= 0 && task.microBatch < p_.microBatchesPerRound,
            "task {} of {}: micro-batch {} of {}",
            index,
            laneName(lane),
            task.microBatch,
            p_.microBatchesPerRound);
    const std::int32_t device = deviceOf(p_.lanes[lane], task);
    require(device == p_.lanes[lane].device,
            "{}: its memory is on device {}",
            taskName(lane, index),
            device);
  }

  void waits(std::size_t lane, std::size_t index) const {
    const Task& task = p_.lanes[lane].tasks[index];
    require(
        task.firstWait >= 0 && task.numWaits >= 0 &&
            static_cast<std::size_t>(task.firstWait) + static_cast<std::size_t>(task.numWaits) <=
                p_.waits.size(),
        "{}: its waits are [{}, +{}) of {}",
        taskName(lane, index),
        task.firstWait,
        task.numWaits,
        p_.waits.size());
    for (const Wait& wait : p_.waitsOf(task)) {
      const bool known = inRange(wait.lane, p_.lanes.size()) &&
                         inRange(wait.task, p_.lanes[wait.lane].tasks.size());
      require(known && wait.roundsBack >= 0,
              "{}: it waits for task {} of lane {}, {} rounds back, which is not there",
              taskName(lane, index),
              wait.task,
              wait.lane,
              wait.roundsBack);
    }
  }

  /// A lane keeps the addresses of the task before: whoever uses a ring must say which slot.
  void slots(std::size_t lane, std::size_t index) const {
    const Task& task = p_.lanes[lane].tasks[index];
    require(
        task.firstSlot >= 0 && task.numSlots >= 0 &&
            static_cast<std::size_t>(task.firstSlot) + static_cast<std::size_t>(task.numSlots) <=
                p_.slots.size(),
        "{}: its slots are [{}, +{}) of {}",
        taskName(lane, index),
        task.firstSlot,
        task.numSlots,
        p_.slots.size());
    for (const Slot& slot : p_.slotsOf(task)) {
      require(inRange(slot.buffer.value, p_.buffers.size()) &&
                  inRange(slot.slot, static_cast<std::size_t>(p_.buffer(slot.buffer).slots)),
              "{}: slot {} of buffer {}, which is not there",
              taskName(lane, index),
              slot.slot,
              slot.buffer.value);
    }
  }

  void transfers() const {
    for (const Transfer& transfer : p_.transfers) {
      for (const BufferId id : {transfer.from, transfer.to}) {
        require(inRange(id.value, p_.buffers.size()),
                "transfer '{}' has buffer {} of {}",
                transfer.name,
                id.value,
                p_.buffers.size());
        require(transfer.bytes <= p_.buffer(id).bytes,
                "transfer '{}' takes {} bytes, buffer '{}' has {}",
                transfer.name,
                transfer.bytes,
                p_.buffer(id).name,
                p_.buffer(id).bytes);
      }
      const Buffer& to = p_.buffer(transfer.to);
      require(p_.buffer(transfer.from).device != to.device &&
                  (to.isRemote() || to.region == Region::Transient),
              "transfer '{}' must go to remote memory or to transient memory of another device",
              transfer.name);
    }
  }

  void collectives() const {
    for (const Collective& collective : p_.collectives) {
      for (const auto& [id, type] : {std::pair(collective.from, collective.operand),
                                     std::pair(collective.to, collective.type)}) {
        require(inRange(id.value, p_.buffers.size()) && type.bytes() <= p_.buffer(id).bytes,
                "collective '{}' of {} bytes: buffer {} does not hold it",
                collective.name,
                type.bytes(),
                id.value);
      }
      const Buffer& from = p_.buffer(collective.from);
      const Buffer& to = p_.buffer(collective.to);
      require(from.device == to.device && to.region == Region::Transient && !overlap(from, to),
              "collective '{}' must go to other, transient memory of its device, and goes from {} "
              "bytes "
              "at {} of device {} to {} bytes at {} of device {}",
              collective.name,
              from.bytes,
              from.offset,
              from.device,
              to.bytes,
              to.offset,
              to.device);
    }
  }

  void allOnceAndInOrder() const {
    std::array<Counts, kTaskKinds> counts;
    for (std::size_t kind = 0; kind < kTaskKinds; ++kind) {
      counts[kind].resize(subjects(static_cast<TaskKind>(kind)));
    }
    for (std::size_t lane = 0; lane < p_.lanes.size(); ++lane) {
      for (std::size_t index = 0; index < p_.lanes[lane].tasks.size(); ++index) {
        const Task& task = p_.lanes[lane].tasks[index];
        if (task.kind == TaskKind::Barrier) {
          continue;  // of several lanes
        }
        next(counts[static_cast<std::size_t>(task.kind)][task.subject], lane, index);
      }
    }
    const auto& [runs, feeds, drains, transfers, collectives, barriers, sends, receives] = counts;
    for (std::size_t s = 0; s < runs.size(); ++s) {
      if (!p_.segments[s].calls.empty()) {
        complete(runs[s], "run", name(p_.segments[s]), perRound(p_.segments[s].oncePerRound()));
      }
    }
    for (std::size_t f = 0; f < feeds.size(); ++f) {
      complete(feeds[f], "feed", p_.feeds[f].name, p_.microBatchesPerRound);
    }
    for (std::size_t d = 0; d < drains.size(); ++d) {
      complete(drains[d], "drain", p_.drains[d].name, p_.microBatchesPerRound);
    }
    for (std::size_t t = 0; t < transfers.size(); ++t) {
      complete(
          transfers[t], "transfer", p_.transfers[t].name, perRound(p_.transfers[t].oncePerRound));
    }
    for (std::size_t r = 0; r < collectives.size(); ++r) {
      complete(collectives[r],
               "reduce",
               p_.collectives[r].name,
               perRound(p_.collectives[r].oncePerRound));
    }
  }

  /// How far one subject has come in the lane it runs on.
  struct Progress {
    std::size_t lane = 0;
    std::int32_t done = 0;
  };
  using Counts = Table<Progress>;

  std::int32_t perRound(bool once) const { return once ? 1 : p_.microBatchesPerRound; }

  /// Tasks that run once count as the first micro-batch before the loop, as the last behind it.
  bool isOnce(const Task& task) const {
    const auto s = static_cast<std::size_t>(task.subject);
    return (task.kind == TaskKind::Run && p_.segments[s].oncePerRound()) ||
           (task.kind == TaskKind::Transfer && p_.transfers[s].oncePerRound) ||
           (task.kind == TaskKind::Reduce && p_.collectives[s].oncePerRound);
  }

  /// Tasks of one subject come in micro-batch order on one lane; pack runs as the first
  /// micro-batch, the update as the last.
  void next(Progress& progress, std::size_t lane, std::size_t index) const {
    const Task& task = p_.lanes[lane].tasks[index];
    const bool atEnd = isOnce(task) && task.microBatch == p_.microBatchesPerRound - 1;
    const std::int32_t expected = atEnd ? p_.microBatchesPerRound - 1 : progress.done;
    require(progress.done == 0 || progress.lane == lane,
            "{}: earlier micro-batches are on {}",
            taskName(lane, index),
            laneName(progress.lane));
    require(task.microBatch == expected,
            "{}: out of order, expected micro-batch {}",
            taskName(lane, index),
            expected);
    progress = {lane, progress.done + 1};
  }

  void complete(const Progress& progress,
                std::string_view kind,
                std::string_view name,
                std::int32_t expected) const {
    require(progress.done == expected,
            "{} {}: expected {} per round, found {}",
            kind,
            name,
            expected,
            progress.done);
  }

  const Program& p_;
};

}  // namespace

void verifyStructure(const Program& program) {
  Structure(program).run();
}

}  // namespace sluice::program
