// Executes the lanes of a Program symbolically. Each lane advances as far as its waits allow, for a
// few rounds. Every cell of memory records who wrote it, who read it and what it holds, and every
// new access must come after those accesses in the order that lanes and waits give.
//
//   load     f0  f1 --------.
//   compute      `-> r0 ----|-> r1   r0 reads what f0, the first task of lane load, wrote. They
//   load'                   `-> f0'  are ordered, because r0 waits for f0. f0', in the next round,
//                                    writes what r0 read, and waits for r0.
//
// Waits name tasks, so the order that they give is the same in every execution: accesses without an
// order here are a race there, whatever order this walk took. A blocked lane is looked at again
// when the task that it waits for is done, so the work is linear in tasks.
#include <algorithm>

#include "sluice/program/verify_order.h"
#include "sluice/program/verify_parts.h"
#include "sluice/program/verify_uses.h"

namespace sluice::program {
namespace {

/// What a read of a buffer may find.
enum class Holds : std::uint8_t {
  MicroBatch,  ///< the value of the reader's own micro-batch and round
  Variable,    ///< any version that was loaded or assigned
  Constant,    ///< what was loaded
  Packed,      ///< this round's copy
  Update,      ///< written by the update: for all of the round's micro-batches
  Window       ///< this round's copy of a remote variable, or what was assigned to it
};

Table<Holds> holdsOf(const Program& program) {
  Table<Holds> holds(program.buffers.size(), Holds::MicroBatch);
  for (const Segment& segment : program.segments) {
    if (segment.kind != SegmentKind::Pack && segment.kind != SegmentKind::Update) {
      continue;
    }
    for (const device::KernelCall& call : segment.calls) {
      for (const std::int32_t b : call.outputs) {
        holds[b] = segment.kind == SegmentKind::Pack ? Holds::Packed : Holds::Update;
      }
    }
  }
  for (const Transfer& transfer : program.transfers) {
    if (transfer.oncePerRound) {
      holds[transfer.to.index()] = Holds::Packed;
    }
  }
  for (const Collective& collective : program.collectives) {
    if (collective.oncePerRound) {
      holds[collective.to.index()] = Holds::Packed;
    }
  }
  for (std::size_t b = 0; b < holds.size(); ++b) {
    if (program.buffers[b].region == Region::State) {
      holds[b] = Holds::Variable;
    } else if (program.buffers[b].window) {
      holds[b] = Holds::Window;
    }
  }
  for (const Constant& constant : program.constants) {
    holds[constant.buffer.index()] = Holds::Constant;
  }
  return holds;
}

/// What a write put there. A round of -1 is the load.
struct Tag {
  BufferId buffer;
  std::int32_t slot = 0;
  std::int32_t round = -1;
  std::int32_t microBatch = 0;
  bool byLoop = false;  ///< written by kernels that run for every micro-batch
};

struct Cell {
  Tag tag;
  Access writer;
  std::vector<Access> readers;  // since that write, the last of each lane
};

class Execution {
 public:
  explicit Execution(const Program& program)
      : p_(program), holds_(holdsOf(program)), uses_(program), order_(program) {
    cells_.resize(uses_.numCells());
    lanes_.resize(p_.lanes.size());
    slot_.assign(p_.buffers.size(), 0);
    for (const Lane& lane : p_.lanes) {
      for (const Task& task : lane.tasks) {
        for (const Wait& wait : p_.waitsOf(task)) {
          rounds_ = std::max(rounds_, wait.roundsBack + 2);
        }
      }
    }
    for (std::int32_t round = 0; round < rounds_; ++round) {
      for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
        shifts_.push_back(p_.slotIn({BufferId(b), 0}, round));
      }
    }
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
  struct Blocked {
    std::size_t lane = 0;
    std::int64_t count = 0;  // that lets it go on
  };
  struct LaneState {
    std::int64_t done = 0;
    std::vector<Blocked> blocked;  // lanes that wait for this one
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

  bool isDone(const Access& access) const { return lanes_[access.lane].done >= access.count; }

  /// Runs the lane as far as its waits let it; lanes that can go on by that become runnable.
  void advance(std::size_t lane, std::vector<std::size_t>& runnable) {
    LaneState& state = lanes_[lane];
    while (!finished(lane)) {
      const Task& task = nextTask(lane);
      lane_ = lane;
      round_ = roundOf(lane, state.done);
      microBatch_ = task.microBatch;
      byLoop_ = isLoop(task);
      if (!startWaits(task)) {
        return;
      }
      execute(task);
      ++state.done;
      if (!state.blocked.empty()) {
        std::erase_if(state.blocked, [&](const Blocked& other) {
          if (other.count <= state.done) {
            runnable.push_back(other.lane);
          }
          return other.count <= state.done;
        });
      }
    }
  }

  bool isLoop(const Task& task) const {
    return task.kind == TaskKind::Run && !p_.segments[task.subject].oncePerRound();
  }

  /// Whether the task can run; if not, its lane is blocked by the first thing that is missing.
  bool startWaits(const Task& task) {
    for (const Wait& wait : p_.waitsOf(task)) {
      const Access other = order_.wanted(wait, round_);
      if (!isDone(other)) {
        lanes_[wait.lane].blocked.push_back({lane_, other.count});
        return false;
      }
    }
    for (const Wait& wait : p_.waitsOf(task)) {
      order_.add(static_cast<std::int32_t>(lane_), order_.wanted(wait, round_));
    }
    return true;
  }

  void execute(const Task& task) {
    const std::span<const std::int32_t> shifts =
        std::span(shifts_).subspan(static_cast<std::size_t>(round_) * slot_.size());
    for (const Slot& s : p_.slotsOf(task)) {
      const std::int32_t slot = s.slot + shifts[s.buffer.index()];
      const std::int32_t slots = p_.buffer(s.buffer).slots;
      slot_[s.buffer.index()] = (slot < slots ? slot : slot - slots) + 1;
    }
    for (const Use& use : uses_.of(task)) {
      const std::int32_t slot = slotOf(use.buffer);
      if (use.write) {
        write(use, slot);
      } else {
        read(use, slot, task.kind == TaskKind::Drain);
      }
    }
    for (const Slot& s : p_.slotsOf(task)) {
      slot_[s.buffer.index()] = 0;
    }
  }

  std::int32_t slotOf(BufferId id) const {
    const std::int32_t named = slot_[id.index()];
    if (named == 0 && p_.buffer(id).slots > 1) {
      broken(
          p_, "{}: it uses the ring '{}' and names no slot of it", hereText(), p_.buffer(id).name);
    }
    return named == 0 ? 0 : named - 1;
  }

  std::span<Cell> cellsOf(CellRange range) {
    return std::span(cells_).subspan(static_cast<std::size_t>(range.first),
                                     static_cast<std::size_t>(range.last - range.first));
  }

  void load() {
    for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
      if (holds_[b] != Holds::Variable && holds_[b] != Holds::Constant) {
        continue;
      }
      for (Cell& cell : cellsOf(uses_.loaded(BufferId(b)))) {
        if (cell.tag.buffer.valid()) {
          broken(p_,
                 "'{}' and '{}' are both loaded and share bytes",
                 p_.buffers[b].name,
                 p_.buffer(cell.tag.buffer).name);
        }
        cell.tag = {BufferId(b), 0, -1, 0, false};
      }
    }
  }

  void read(const Use& use, std::int32_t slot, bool drain) {
    const Access now = here();
    const bool fresh =
        use.accumulates && microBatch_ == 0 && holds_[use.buffer.index()] == Holds::Window;
    for (Cell& cell : cellsOf(uses_.cells(use, slot))) {
      if (!order_.isBefore(cell.writer, now)) {
        reportRace(use, "reads", cell.writer, "writes", cell.tag.buffer);
      }
      if (!fresh) {
        requireTag(use, slot, cell.tag, drain);
      }
      const auto same = std::ranges::find(cell.readers, now.lane, &Access::lane);
      if (same != cell.readers.end()) {
        *same = now;
      } else {
        cell.readers.push_back(now);
      }
    }
  }

  void write(const Use& use, std::int32_t slot) {
    const Access now = here();
    for (Cell& cell : cellsOf(uses_.cells(use, slot))) {
      if (!order_.isBefore(cell.writer, now)) {
        reportRace(use, "writes", cell.writer, "writes", cell.tag.buffer);
      }
      for (const Access& reader : cell.readers) {
        if (!order_.isBefore(reader, now)) {
          reportRace(use, "writes", reader, "reads", cell.tag.buffer);
        }
      }
      const BufferId old = cell.tag.buffer;
      if (old.valid() && holds_[old.index()] == Holds::Constant) {
        broken(p_,
               "{}: it writes '{}' over the constant '{}'",
               hereText(),
               p_.buffer(use.buffer).name,
               p_.buffer(old).name);
      }
      cell.tag = {use.buffer, slot, round_, microBatch_, byLoop_};
      cell.writer = now;
      cell.readers.clear();
    }
  }

  /// The task being executed.
  Access here() const { return {static_cast<std::int32_t>(lane_), lanes_[lane_].done + 1}; }

  void requireTag(const Use& use, std::int32_t slot, const Tag& tag, bool drain) const {
    if (tag.buffer != use.buffer || tag.slot != slot) {
      broken(p_,
             "{}: it reads slot {} of '{}' and finds {}",
             hereText(),
             slot,
             p_.buffer(use.buffer).name,
             tagText(tag));
    }
    const Holds holds = holds_[use.buffer.index()];
    // What the loop adds up is whole only behind its last micro-batch.
    const bool adds = holds == Holds::Window || holds == Holds::Variable;
    if (adds && tag.byLoop && !byLoop_ && tag.microBatch != microBatch_) {
      broken(p_,
             "{}: it reads '{}' and expects what micro-batch {} has left, but finds {}",
             hereText(),
             p_.buffer(use.buffer).name,
             microBatch_,
             tagText(tag));
    }
    const bool once =
        holds == Holds::Packed || holds == Holds::Window || (holds == Holds::Update && drain);
    const bool checked = holds != Holds::Variable && holds != Holds::Constant;
    if (checked && (tag.round != round_ || (!once && tag.microBatch != microBatch_))) {
      broken(p_,
             "{}: it reads slot {} of '{}' and expects its own micro-batch and round, but finds {}",
             hereText(),
             slot,
             p_.buffer(use.buffer).name,
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
  std::string hereText() const { return taskAt(lane_, lanes_[lane_].done); }

  [[noreturn]] void reportRace(const Use& use,
                               std::string_view does,
                               const Access& other,
                               std::string_view otherDoes,
                               BufferId otherBuffer) const {
    broken(p_,
           "race: {} {} '{}' and is not ordered with {}, which {} '{}' in the same bytes",
           hereText(),
           does,
           p_.buffer(use.buffer).name,
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
        const Access other = order_.wanted(wait, roundOf(l, done));
        if (!isDone(other)) {
          text += fmt::format(" {};", taskAt(static_cast<std::size_t>(wait.lane), other.count - 1));
        }
      }
    }
    broken(p_, "deadlock: no lane can go on{}", text);
  }

  const Program& p_;
  Table<Holds> holds_;
  std::int32_t rounds_ = 3;
  Uses uses_;
  LaneOrder order_;
  std::vector<Cell> cells_;
  Table<LaneState> lanes_;
  std::vector<std::int32_t> slot_;    // by buffer, of the task being run; from 1, 0: not named
  std::vector<std::int32_t> shifts_;  // by round and buffer: how far its ring has moved on
  // The task being executed.
  std::size_t lane_ = 0;
  std::int32_t round_ = 0;
  std::int32_t microBatch_ = 0;
  bool byLoop_ = false;
};

}  // namespace

void verifyExecution(const Program& program) {
  Execution(program).run();
}

}  // namespace sluice::program
