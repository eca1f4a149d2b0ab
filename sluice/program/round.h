// One round as actions and lanes, before it becomes tasks. An action is work that runs once per
// micro-batch (a segment, a feed, a drain, a transfer) or once per round; each of its instances has
// a planned time and a position in its lane. The writers and readers of each buffer determine the
// depth of every ring and the waits of every task. Private to the program module.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "sluice/parallel/stage.h"
#include "sluice/program/emitter.h"
#include "sluice/program/program.h"
#include "sluice/schedule/pipeline.h"

namespace sluice::program {

using ActionId = Id<struct ActionTag>;

struct Action {
  TaskKind kind = TaskKind::Run;
  std::int32_t subject = 0;  ///< as in Task
  bool once = false;         ///< once per round
  bool fetches = false;      ///< a transfer from remote memory
  bool flushes = false;      ///< a transfer to it
  std::int32_t lane = -1;
  std::vector<BufferId> reads;  ///< buffers
  std::vector<BufferId> writes;
  // By instance: one per micro-batch, or only one.
  Table<std::int32_t> task;  ///< position in the lane
  Table<std::int64_t> start;
  Table<std::int64_t> end;

  std::int32_t instances() const { return task.count(); }
  std::size_t at(std::int32_t microBatch) const {
    return once ? 0 : static_cast<std::size_t>(microBatch);
  }
};

/// The actions that touch a buffer. Transient buffers have one writer; a variable may have several.
struct Touch {
  std::vector<ActionId> writers;  ///< actions
  std::vector<ActionId> readers;
};

struct RoundOptions {
  std::int32_t microBatches = 1;
  std::int32_t lookahead = 1;  ///< micro-batches by which other lanes may lead the kernels
  bool overlaps = true;        ///< memory is taken one segment early and released one segment late
  bool sequential = false;     ///< a micro-batch starts after the one before left the last stage
  /// How the update alternates with streaming its state.
  parallel::PhaseSchedule updates = parallel::PhaseSchedule::Interleaving;
};

class Round {
 public:
  /// `schedule` gives the times and orders of the loop; Pack comes before it, the update after it.
  Round(const Emitted& emitted,
        const schedule::PipelineSchedule& schedule,
        const RoundOptions& options);

  /// The number of slots that each buffer needs so that the planned run never waits for memory.
  std::vector<std::int32_t> ringDepths() const;
  /// Whether more than one action touches the buffer.
  bool isShared(BufferId buffer) const;
  /// Whether the device's kernels finish a micro-batch before they begin the next.
  bool isSerial(std::int32_t device) const;
  bool overlaps() const { return options_.overlaps; }
  std::int32_t microBatches() const { return options_.microBatches; }
  parallel::PhaseSchedule updates() const { return options_.updates; }
  /// Whether any data is in remote memory.
  bool streams() const { return streams_; }
  /// Whether the groups of a device's segments run one after the other (see groupOf). Then memory
  /// is free again after the last segment that uses it.
  bool isGrouped(std::int32_t device) const { return grouped_[device]; }
  /// The segments of one group run in turn for each micro-batch; groups run one after the other.
  std::int32_t groupOf(std::int32_t segment) const { return group_[segment]; }
  /// Whether the buffer keeps data for several turns of a group: it is written once and used by
  /// every micro-batch, or it is used in several groups, or it has a slot for a later micro-batch.
  bool spansTurns(BufferId buffer) const;
  /// The segment of its device that runs, or runs next, when another device or the host first
  /// writes the buffer; -1 if neither does.
  std::int32_t segmentAtArrival(BufferId buffer) const;
  /// The first and the last segment whose kernels use the buffer; -1 if there is none.
  std::pair<std::int32_t, std::int32_t> segmentsOf(BufferId buffer) const;
  /// Whether a lane other than that of the device's kernels writes (or reads) the buffer.
  bool isWrittenElsewhere(BufferId buffer) const;
  bool isReadElsewhere(BufferId buffer) const;
  /// Whether a sum over replicas reads it after the loop has ended.
  bool isSummedBehindLoop(BufferId buffer) const;

  /// Fills lanes, tasks, waits and slots. Segments without calls have no tasks.
  void write(Program& program) const;

 private:
  /// An action for one micro-batch.
  struct Instance {
    ActionId action;
    std::int32_t number = 0;  ///< the micro-batch, 0 for what runs once

    bool operator==(const Instance&) const = default;
  };

  /// Another action that uses the same bytes, for another buffer, before this action does: buffers
  /// share memory over the course of a round.
  struct MemoryRule {
    ActionId action;
    bool earlier = false;    ///< earlier in the same round; otherwise in the round before
    bool alternate = false;  ///< both have one turn per micro-batch
  };

  /// The factor by which planned times are stretched. Under phases this makes room between them for
  /// work that runs once between two phases, and inside them for the parts of a pass.
  std::int64_t timeScale() const { return (phases_ ? 4 : 1) * mostParts_; }
  /// For each pass of a stage, its segments as actions, in the order of their parts.
  using LoopActions =
      std::map<std::pair<parallel::SegmentKind, std::int32_t>, std::vector<ActionId>>;
  LoopActions loopActions() const;
  const Buffer& bufferOf(BufferId id) const { return emitted_.buffers[id.index()]; }
  BufferUse useOf(BufferId id) const { return emitted_.uses[id.index()]; }
  /// What an action of kind Run runs.
  const parallel::SegmentInfo& segmentOf(const Action& action) const {
    return emitted_.segments[action.subject];
  }
  void addActions();
  void addTouches();
  void setTimes(const schedule::PipelineSchedule& schedule);
  void setRunTimes(const schedule::PipelineSchedule& schedule);
  /// When kernels first need a value, on this device or through copies on another one.
  std::int64_t firstRead(BufferId buffer, std::int32_t microBatch) const;
  std::int64_t firstUse(const Action& fetch, std::int32_t microBatch) const;
  std::int64_t lastWrite(const Action& copy, std::int32_t microBatch) const;
  bool copiesFed(const Action& action) const;
  void layLanes(const schedule::PipelineSchedule& schedule);
  void layKernels(const schedule::PipelineSchedule& schedule, std::size_t devices);
  std::int32_t laneFor(const Action& action);
  void findGroups();
  void layRemoteLanes();
  std::int32_t placeAmongKernels(const Action& action, std::int32_t microBatch) const;
  void findEnds();
  std::int32_t laneOf(std::int32_t device, LaneKind kind, std::int32_t peer = -1);
  void append(ActionId id, std::int32_t instance);
  std::int32_t depthOf(BufferId buffer) const;
  void addWaits(const Action& action, std::int32_t microBatch, Table<Wait>& waits) const;
  void waitForSlot(const Action& action,
                   const Action& reader,
                   std::int32_t slots,
                   std::int32_t microBatch,
                   Table<Wait>& waits) const;
  // For programs that stream (round_streams.cpp).
  void orderRemoteVariables();
  bool isStreamed(BufferId buffer) const;
  void addStreamWaits(const Action& action, std::int32_t m, Table<Wait>& waits) const;
  void addWindowWaits(const Action& action,
                      BufferId window,
                      std::int32_t m,
                      Table<Wait>& waits) const;
  void addRemoteWaits(const Action& action,
                      BufferId variable,
                      std::int32_t m,
                      Table<Wait>& waits) const;
  ById<ActionId, std::vector<MemoryRule>> memoryRules() const;
  void addMemoryWaits(const Action& action,
                      std::span<const MemoryRule> rules,
                      std::int32_t m,
                      Table<Wait>& waits) const;
  Wait sameTurn(const Action& action, const Action& other, std::int32_t m) const;
  Wait turnBefore(const Action& action, const Action& other, std::int32_t m) const;
  ActionId firstToucher(BufferId buffer) const;
  bool isOwnKernel(BufferId buffer, ActionId action) const;
  std::vector<ActionId> kernelsOf(BufferId buffer) const;

  ById<ActionId, Table<BufferId>> ringsOfActions() const;
  void waitForMicroBatchBefore(const Action& action,
                               std::int32_t microBatch,
                               Table<Wait>& waits) const;

  const Emitted& emitted_;
  RoundOptions options_;
  std::int64_t makespan_ = 0;
  ById<ActionId, Action> actions_;
  Table<ActionId> actionOfSegment_;  // none: without calls
  ById<BufferId, Touch> touches_;
  Table<Lane> lanes_;             // without tasks
  Table<Table<Instance>> order_;  // by lane
  std::map<std::tuple<std::int32_t, LaneKind, std::int32_t>, std::int32_t> laneIndex_;
  Table<ActionId> firstRun_;  // by micro-batch: the action that begins it (or ends it)
  Table<ActionId> lastRun_;
  Table<bool> serial_;          // by device
  Table<std::int32_t> group_;   // by segment; -1: without calls
  Table<bool> grouped_;         // by device
  bool streams_ = false;        // something is in remote memory
  bool phases_ = false;         // once-per-round work runs inside the loop
  std::int64_t mostParts_ = 1;  // of a pass of a stage
  // For each buffer of a remote variable: its transfers in the order of a round.
  ById<BufferId, std::vector<Instance>> remoteOrder_;
};

}  // namespace sluice::program
