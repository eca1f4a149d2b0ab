// Runs the lanes of a Program on paper. Each lane goes as far as its waits let it, for a few
// rounds; every task carries a vector clock (per lane, how many tasks have certainly finished
// before it), and every byte remembers who wrote and read it and what it holds.
//
//   load     f0  f1 --------.        f0' waits for r0: its clock is {load 2, compute 1}.
//   compute      `-> r0 ----|-> r1   r0 reads what f0 wrote, count 1 of lane load: ordered, because
//   load'                   `-> f0'  r0's clock has load >= 1.
//
// Because waits name tasks, the order they give is the same in every execution: what is unordered
// here is a race there, whichever order this walk happened to take.
//
// A task's clock is kept only until the last task that waits for it has run; a lane that is blocked
// is looked at again when what it waits for is done. Both keep the work near linear in tasks.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "sluice/program/arena_tags.h"
#include "sluice/program/verify_parts.h"

namespace sluice::program {
namespace {

/// What a read of a buffer may find.
enum class Holds : std::uint8_t {
  MicroBatch,  ///< the value of the reader's own micro-batch and round
  Variable,    ///< any version that was loaded or assigned
  Constant,    ///< what was loaded
  Packed,      ///< this round's copy
  Update       ///< written by the update: for all of the round's micro-batches
};

std::vector<Holds> holdsOf(const Program& program) {
  std::vector<Holds> holds(program.buffers.size(), Holds::MicroBatch);
  for (const Segment& segment : program.segments) {
    if (segment.kind != SegmentKind::Pack && segment.kind != SegmentKind::Update) {
      continue;
    }
    for (const device::KernelCall& call : segment.calls) {
      for (const std::int32_t b : call.outputs) {
        holds[static_cast<std::size_t>(b)] =
            segment.kind == SegmentKind::Pack ? Holds::Packed : Holds::Update;
      }
    }
  }
  for (const Transfer& transfer : program.transfers) {
    if (transfer.oncePerRound) {
      holds[transfer.to.index()] = Holds::Packed;
    }
  }
  for (std::size_t b = 0; b < holds.size(); ++b) {
    if (program.buffers[b].region == Region::State) {
      holds[b] = Holds::Variable;
    }
  }
  for (const Constant& constant : program.constants) {
    holds[constant.buffer.index()] = Holds::Constant;
  }
  return holds;
}

class Execution {
 public:
  explicit Execution(const Program& program) : p_(program), holds_(holdsOf(program)) {
    for (const DevicePlan& plan : p_.devices) {
      arenas_.push_back({ArenaTags(plan.stateBytes), ArenaTags(plan.transientBytes)});
    }
    lanes_.resize(p_.lanes.size());
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      lanes_[l].clock.assign(lanes_.size(), 0);
      lanes_[l].waiters.resize(p_.lanes[l].tasks.size());
    }
    slot_.assign(p_.buffers.size(), 0);
    countWaiters();
  }

  void run() {
    load();
    std::vector<std::size_t> runnable;
    for (std::size_t l = lanes_.size(); l-- > 0;) {
      runnable.push_back(l);
    }
    while (!runnable.empty()) {
      const std::size_t lane = runnable.back();
      runnable.pop_back();
      advance(lane, runnable);
    }
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      if (!finished(l)) {
        reportDeadlock();
      }
    }
  }

 private:
  using Clock = std::vector<std::int64_t>;

  /// The clock of a finished task that others will still wait for.
  struct Kept {
    Clock clock;
    std::int32_t waiters = 0;
  };
  struct Blocked {
    std::size_t lane = 0;
    std::int64_t count = 0;  // that lets it go on
  };
  struct LaneState {
    std::int64_t done = 0;
    Clock clock;                                     // own entry: the task being run
    std::vector<std::vector<std::int32_t>> waiters;  // by task: rounds between it and who waits
    std::unordered_map<std::int64_t, Kept> kept;     // by the count that the task brought
    std::vector<Blocked> blocked;                    // lanes that wait for this one
  };

  /// Bytes of one slot of a buffer.
  struct Place {
    ArenaTags& arena;
    BufferId buffer;
    std::int32_t slot = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  std::int64_t perRound(std::size_t lane) const {
    return static_cast<std::int64_t>(p_.lanes[lane].tasks.size());
  }
  bool finished(std::size_t lane) const { return lanes_[lane].done == perRound(lane) * rounds_; }
  std::size_t taskIndex(std::size_t lane, std::int64_t done) const {
    return static_cast<std::size_t>(done % perRound(lane));
  }
  std::int32_t roundOf(std::size_t lane, std::int64_t done) const {
    return static_cast<std::int32_t>(done / perRound(lane));
  }
  const Task& nextTask(std::size_t lane) const {
    return p_.lanes[lane].tasks[taskIndex(lane, lanes_[lane].done)];
  }

  /// The count that the wait's lane must reach; 0 when the round waited for never was.
  std::int64_t wanted(const Wait& wait, std::int32_t round) const {
    const std::int64_t since = round - wait.roundsBack;
    return since < 0 ? 0 : since * perRound(static_cast<std::size_t>(wait.lane)) + wait.task + 1;
  }

  void countWaiters() {
    for (const Lane& lane : p_.lanes) {
      for (const Task& task : lane.tasks) {
        for (const Wait& wait : p_.waitsOf(task)) {
          rounds_ = std::max(rounds_, wait.roundsBack + 2);
          lanes_[static_cast<std::size_t>(wait.lane)]
              .waiters[static_cast<std::size_t>(wait.task)]
              .push_back(wait.roundsBack);
        }
      }
    }
  }

  /// The first wait of the lane's next task that is not satisfied; null: none.
  const Wait* missing(std::size_t lane) const {
    const std::int32_t round = roundOf(lane, lanes_[lane].done);
    for (const Wait& wait : p_.waitsOf(nextTask(lane))) {
      if (lanes_[static_cast<std::size_t>(wait.lane)].done < wanted(wait, round)) {
        return &wait;
      }
    }
    return nullptr;
  }

  /// Runs the lane as far as its waits let it; lanes that can go on by that become runnable.
  void advance(std::size_t lane, std::vector<std::size_t>& runnable) {
    LaneState& state = lanes_[lane];
    while (!finished(lane)) {
      if (const Wait* wait = missing(lane)) {
        lanes_[static_cast<std::size_t>(wait->lane)].blocked.push_back(
            {lane, wanted(*wait, roundOf(lane, state.done))});
        return;
      }
      step(lane);
      std::erase_if(state.blocked, [&](const Blocked& other) {
        if (other.count <= state.done) {
          runnable.push_back(other.lane);
        }
        return other.count <= state.done;
      });
    }
  }

  /// What is ordered before a task of `other` is ordered before this one.
  void join(Clock& clock, std::size_t other, std::int64_t count) {
    std::unordered_map<std::int64_t, Kept>& all = lanes_[other].kept;
    const auto kept = all.find(count);
    if (clock[other] < count) {
      const Clock& before = kept->second.clock;
      for (std::size_t l = 0; l < before.size(); ++l) {
        clock[l] = std::max(clock[l], before[l]);
      }
    }
    if (--kept->second.waiters == 0) {
      spare_.push_back(std::move(kept->second.clock));
      all.erase(kept);
    }
  }

  /// Keeps the clock of the task just run if anything will wait for it.
  void keep(std::size_t lane, std::int32_t round) {
    LaneState& state = lanes_[lane];
    const auto waiters = static_cast<std::int32_t>(
        std::ranges::count_if(state.waiters[taskIndex(lane, state.done)],
                              [&](std::int32_t later) { return round + later < rounds_; }));
    if (waiters == 0) {
      return;
    }
    Kept& kept = state.kept[state.done + 1];
    if (!spare_.empty()) {
      kept.clock = std::move(spare_.back());
      spare_.pop_back();
    }
    kept.clock = state.clock;
    kept.waiters = waiters;
  }

  void step(std::size_t lane) {
    LaneState& state = lanes_[lane];
    const Task& task = nextTask(lane);
    const std::int32_t round = roundOf(lane, state.done);
    for (const Wait& wait : p_.waitsOf(task)) {
      if (const std::int64_t count = wanted(wait, round); count > 0) {
        join(state.clock, static_cast<std::size_t>(wait.lane), count);
      }
    }
    state.clock[lane] = state.done + 1;
    lane_ = lane;
    round_ = round;
    microBatch_ = task.microBatch;
    execute(task);
    keep(lane, round);
    ++state.done;
  }

  void execute(const Task& task) {
    for (const Slot& s : p_.slotsOf(task)) {
      slot_[s.buffer.index()] = p_.slotIn(s, round_) + 1;  // 0: not named by this task
    }
    const auto subject = static_cast<std::size_t>(task.subject);
    switch (task.kind) {
      case TaskKind::Run:
        for (const device::KernelCall& call : p_.segments[subject].calls) {
          runCall(call);
        }
        break;
      case TaskKind::Feed: {
        const Stream& feed = p_.feeds[subject];
        write(place(feed.buffer, feed.type.bytes()));
        break;
      }
      case TaskKind::Drain: {
        const Stream& drain = p_.drains[subject];
        read(place(drain.buffer, drain.type.bytes()), true);
        break;
      }
      case TaskKind::Transfer: {
        const Transfer& transfer = p_.transfers[subject];
        read(place(transfer.from, transfer.bytes));
        write(place(transfer.to, transfer.bytes));
        break;
      }
    }
    for (const Slot& s : p_.slotsOf(task)) {
      slot_[s.buffer.index()] = 0;
    }
  }

  void runCall(const device::KernelCall& call) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      read(place(BufferId(call.inputs[i]), call.choice.inputs[i].bytes(call.inputTypes[i])));
    }
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const Place out =
          place(BufferId(call.outputs[i]), call.choice.outputs[i].bytes(call.outputTypes[i]));
      if (readsOutput(call)) {
        read(out);
      }
      write(out);
    }
    if (call.scratch >= 0) {
      write(place(BufferId(call.scratch), call.choice.scratchBytes));
    }
  }

  ArenaTags& arenaOf(const Buffer& buffer) {
    return arenas_[static_cast<std::size_t>(buffer.device)]
                  [static_cast<std::size_t>(buffer.region)];
  }

  Place place(BufferId id, std::size_t bytes) {
    const Buffer& buffer = p_.buffer(id);
    const std::int32_t named = slot_[id.index()];
    if (buffer.slots > 1 && named == 0) {
      broken(p_, "{}: it uses the ring '{}' and names no slot of it", here(), buffer.name);
    }
    const std::int32_t slot = named == 0 ? 0 : named - 1;
    const std::size_t begin = buffer.offset + buffer.slotStride() * static_cast<std::size_t>(slot);
    return {arenaOf(buffer), id, slot, begin, begin + bytes};
  }

  void load() {
    for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
      const Buffer& buffer = p_.buffers[b];
      if (holds_[b] == Holds::Variable || holds_[b] == Holds::Constant) {
        ArenaTags& arena = arenaOf(buffer);
        const std::size_t end = buffer.offset + buffer.bytes;
        if (buffer.bytes == 0) {
          continue;
        }
        arena.visit(buffer.offset, end, [&](const ArenaTags::Range& range) {
          if (range.tag.buffer.valid()) {
            broken(p_,
                   "'{}' and '{}' are both loaded and share bytes",
                   buffer.name,
                   p_.buffer(range.tag.buffer).name);
          }
        });
        arena.write(buffer.offset, end, {BufferId(b), 0, -1, 0}, {});
      }
    }
  }

  bool ordered(const Access& earlier) const {
    return earlier.lane < 0 ||
           lanes_[lane_].clock[static_cast<std::size_t>(earlier.lane)] >= earlier.count;
  }

  void read(const Place& place, bool drain = false) {
    if (place.begin == place.end) {
      return;
    }
    place.arena.visit(place.begin, place.end, [&](const ArenaTags::Range& range) {
      if (!ordered(range.writer)) {
        reportRace(place, "reads", range.writer, "writes", range.tag.buffer);
      }
      requireTag(place, range.tag, drain);
    });
    place.arena.read(place.begin, place.end, access());
  }

  void write(const Place& place) {
    if (place.begin == place.end) {
      return;
    }
    place.arena.visit(place.begin, place.end, [&](const ArenaTags::Range& range) {
      if (!ordered(range.writer)) {
        reportRace(place, "writes", range.writer, "writes", range.tag.buffer);
      }
      for (const Access& reader : range.readers) {
        if (!ordered(reader)) {
          reportRace(place, "writes", reader, "reads", range.tag.buffer);
        }
      }
      const BufferId old = range.tag.buffer;
      if (old.valid() && holds_[old.index()] == Holds::Constant) {
        broken(p_,
               "{}: it writes '{}' over the constant '{}'",
               here(),
               p_.buffer(place.buffer).name,
               p_.buffer(old).name);
      }
    });
    place.arena.write(
        place.begin, place.end, {place.buffer, place.slot, round_, microBatch_}, access());
  }

  Access access() const { return {static_cast<std::int32_t>(lane_), lanes_[lane_].done + 1}; }

  void requireTag(const Place& place, const Tag& tag, bool drain) const {
    if (tag.buffer != place.buffer || tag.slot != place.slot) {
      broken(p_,
             "{}: it reads slot {} of '{}' and finds {}",
             here(),
             place.slot,
             p_.buffer(place.buffer).name,
             tagText(tag));
    }
    const Holds holds = holds_[place.buffer.index()];
    const bool once = holds == Holds::Packed || (holds == Holds::Update && drain);
    const bool checked = holds != Holds::Variable && holds != Holds::Constant;
    if (checked && (tag.round != round_ || (!once && tag.microBatch != microBatch_))) {
      broken(p_,
             "{}: it reads slot {} of '{}' and expects its own micro-batch and round, but finds {}",
             here(),
             place.slot,
             p_.buffer(place.buffer).name,
             tagText(tag));
    }
  }

  std::string tagText(const Tag& tag) const {
    if (!tag.buffer.valid()) {
      return "bytes that nothing has written";
    }
    const std::string_view name = p_.buffer(tag.buffer).name;
    return tag.round < 0 ? fmt::format("'{}' as loaded", name)
                         : fmt::format("slot {} of '{}' of micro-batch {}, round {}",
                                       tag.slot,
                                       name,
                                       tag.microBatch,
                                       tag.round);
  }

  std::string taskAt(std::size_t lane, std::int64_t done) const {
    return fmt::format(
        "round {}, {}", roundOf(lane, done), taskText(p_, lane, taskIndex(lane, done)));
  }
  std::string here() const { return taskAt(lane_, lanes_[lane_].done); }

  [[noreturn]] void reportRace(const Place& place,
                               std::string_view does,
                               const Access& other,
                               std::string_view otherDoes,
                               BufferId otherBuffer) const {
    broken(p_,
           "race: {} {} '{}' and is not ordered with {}, which {} '{}' in the same bytes",
           here(),
           does,
           p_.buffer(place.buffer).name,
           taskAt(static_cast<std::size_t>(other.lane), other.count - 1),
           otherDoes,
           otherBuffer.valid() ? p_.buffer(otherBuffer).name : "?");
  }

  [[noreturn]] void reportDeadlock() const {
    std::string text;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      const std::int64_t done = lanes_[l].done;
      text += fmt::format(
          "\n  {}: finished {}", laneText(p_, l), done == 0 ? "nothing" : taskAt(l, done - 1));
      if (finished(l)) {
        text += ", the last";
        continue;
      }
      text += fmt::format("; next is {}, which waits for", taskAt(l, done));
      for (const Wait& wait : p_.waitsOf(nextTask(l))) {
        const auto target = static_cast<std::size_t>(wait.lane);
        const std::int64_t count = wanted(wait, roundOf(l, done));
        if (lanes_[target].done < count) {
          text += fmt::format(" {};", taskAt(target, count - 1));
        }
      }
    }
    broken(p_, "deadlock: no lane can go on{}", text);
  }

  const Program& p_;
  std::vector<Holds> holds_;
  std::int32_t rounds_ = 3;
  std::vector<std::array<ArenaTags, 2>> arenas_;  // by device, then Region
  std::vector<LaneState> lanes_;
  std::vector<Clock> spare_;        // memory of clocks that nobody waits for any more
  std::vector<std::int32_t> slot_;  // by buffer, of the task being run
  // The task being executed.
  std::size_t lane_ = 0;
  std::int32_t round_ = 0;
  std::int32_t microBatch_ = 0;
};

}  // namespace

void verifyExecution(const Program& program) {
  Execution(program).run();
}

}  // namespace sluice::program
