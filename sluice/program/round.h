// One round as nodes and lanes, before it becomes tasks. A node is what runs again for every
// micro-batch (a segment, a feed, a drain, a transfer) or once; each of its instances has a planned
// time and a place in its lane. From who writes and reads each buffer follow the depth of every
// ring and the waits of every task. Private to the program module.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "sluice/program/emitter.h"
#include "sluice/program/program.h"
#include "sluice/schedule/pipeline.h"

namespace sluice::program {

struct Node {
  TaskKind kind = TaskKind::Run;
  std::int32_t subject = 0;  ///< as in Task
  bool once = false;         ///< per round
  std::int32_t lane = -1;
  std::vector<std::int32_t> reads;  ///< buffers
  std::vector<std::int32_t> writes;
  // By instance: one per micro-batch, or one.
  std::vector<std::int32_t> task;  ///< position in the lane
  std::vector<std::int64_t> start;
  std::vector<std::int64_t> end;

  std::size_t at(std::int32_t microBatch) const {
    return once ? 0 : static_cast<std::size_t>(microBatch);
  }
};

/// Who touches a buffer. Transient buffers have one writer; a variable may have several.
struct Touch {
  std::vector<std::int32_t> writers;  ///< nodes
  std::vector<std::int32_t> readers;
};

struct RoundOptions {
  std::int32_t microBatches = 1;
  std::int32_t lookahead = 1;  ///< micro-batches that other lanes may be ahead of the kernels
  bool sequential = false;     ///< a micro-batch begins when the one before has left the last stage
};

class Round {
 public:
  /// Times and orders of the loop come from `schedule`; Pack comes before it, the update behind it.
  Round(const Emitted& emitted,
        const schedule::PipelineSchedule& schedule,
        const RoundOptions& options);

  /// Slots that each buffer needs so that the planned run never waits for memory.
  std::vector<std::int32_t> ringDepths() const;
  /// Whether more than one node touches the buffer.
  bool isShared(std::size_t buffer) const;
  /// Whether a device's kernels finish a micro-batch before they begin the next.
  bool isSerial(std::int32_t device) const;

  /// Fills lanes, tasks, waits and slots. Segments without calls have no tasks.
  void write(Program& program) const;

 private:
  void addNodes();
  void addTouches();
  void setTimes(const schedule::PipelineSchedule& schedule);
  void setRunTimes(const schedule::PipelineSchedule& schedule);
  std::int64_t firstRead(const Node& feed, std::int32_t microBatch) const;
  std::int64_t lastWrite(const Node& copy, std::int32_t microBatch) const;
  void layLanes(const schedule::PipelineSchedule& schedule);
  void findEnds();
  std::int32_t laneOf(std::int32_t device, LaneKind kind, std::int32_t peer = -1);
  void append(std::int32_t node, std::int32_t instance);
  std::int32_t depthOf(std::size_t buffer) const;
  void addWaits(const Node& node, std::int32_t microBatch, std::vector<Wait>& waits) const;
  void waitForSlot(const Node& node,
                   const Node& reader,
                   std::int32_t slots,
                   std::int32_t microBatch,
                   std::vector<Wait>& waits) const;
  std::vector<Slot> slotsOf(const Node& node, std::int32_t m) const;
  void waitForMicroBatchBefore(const Node& node,
                               std::int32_t microBatch,
                               std::vector<Wait>& waits) const;

  const Emitted& emitted_;
  RoundOptions options_;
  std::int64_t makespan_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> nodeOfSegment_;                                // -1: without calls
  std::vector<Touch> touches_;                                             // by buffer
  std::vector<Lane> lanes_;                                                // without tasks
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> order_;  // node, instance
  std::map<std::tuple<std::int32_t, LaneKind, std::int32_t>, std::int32_t> laneIndex_;
  std::vector<std::int32_t> firstRun_;  // by micro-batch: the node that begins and that ends it
  std::vector<std::int32_t> lastRun_;
  std::vector<bool> serial_;  // by device
};

}  // namespace sluice::program
