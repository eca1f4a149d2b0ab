// Program: what runs. One round of one replica, lowered to flat lists of tasks over planned slices
// of device memory. The Engine executes it, the verifier proves it, a simulator reads the same
// lanes; nobody looks anything up by name while it runs.
//
//   round      G micro-batches (G = gradient accumulation), then the update; G device iterations
//              when there is no update. A step repeats the round R times.
//   lane       one list of tasks of one device, run in order: load, compute, store, exchange, one
//              for each device that sends to it, and fetch and flush, from and to remote memory
//   task       run a segment, feed an input, drain an output, copy from another device, meet
//              others at a barrier; with the tasks it waits for
//   buffer     a planned slice of an arena; a ring has several slots, one per micro-batch in flight
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/base/ids.h"
#include "sluice/device/device.h"
#include "sluice/ir/graph.h"
#include "sluice/parallel/segments.h"
#include "sluice/schedule/sync_groups.h"

namespace sluice::program {

using BufferId = Id<struct BufferTag>;
using SegmentId = Id<struct SegmentTag>;

/// What every device asks for at least.
inline constexpr std::size_t kAlignment = 64;

/// In the place of a device: remote memory, the host's, for what the devices have no room for.
inline constexpr std::int32_t kRemote = -1;

enum class Region : std::uint8_t {
  State,     ///< variables: one plan per model, shared by all its programs
  Transient  ///< everything else; the regions of a model's programs overlap
};

struct Buffer {
  std::string name;  ///< for people: the value or variable it holds
  std::int32_t device = 0;
  Region region = Region::Transient;
  std::size_t offset = 0;
  std::size_t bytes = 0;   ///< of one slot
  std::int32_t slots = 1;  ///< slots lie one after the other, each rounded up to the alignment
  std::size_t alignment = kAlignment;  ///< of the device
  /// A device's copy of a remote variable for a part of the round; kernels may assign it.
  bool window = false;

  bool isRemote() const { return device == kRemote; }
  std::size_t slotStride() const { return (bytes + alignment - 1) / alignment * alignment; }
  std::size_t totalBytes() const {
    return slots == 1 ? bytes : slotStride() * static_cast<std::size_t>(slots);
  }
};

using parallel::SegmentKind;

/// A maximal list of kernels on one device between communication points; lowered once, run for
/// every micro-batch. Operands of the calls are BufferIds.
struct Segment : parallel::SegmentInfo {
  std::vector<device::KernelCall> calls;
};
/// "forward 0", "update 1"
std::string name(const Segment& segment);

/// Which micro-batches of a step an output is fetched for, counted over its rounds.
struct DrainRule {
  std::int32_t every = 1;  ///< the last of each run of this many
  bool finalOnly = false;  ///< only the last micro-batch of the step

  bool applies(std::int64_t microBatch, std::int64_t microBatches) const {
    return finalOnly ? microBatch + 1 == microBatches : (microBatch + 1) % every == 0;
  }
  bool operator==(const DrainRule&) const = default;
};

/// An input or output of the model.
struct Stream {
  std::string name;
  TensorType type;  ///< of one micro-batch
  BufferId buffer;
  DrainRule rule = {};  ///< outputs only
  /// Where the pinned memory of the buffer's device has room for it, if the host cannot read that
  /// device's memory: a slot for each of the buffer's if it is an input, one if it is an output.
  std::optional<std::size_t> staging = {};
};

/// A tensor written once at load.
struct Constant {
  BufferId buffer;
  HostTensor value;
};

/// A copy from one device's memory into another's. One record serves both ends: whoever owns the
/// destination runs the task, and its completion frees the source.
struct Transfer {
  std::string name;
  BufferId from;
  BufferId to;
  std::size_t bytes = 0;
  bool oncePerRound = false;  ///< a variable's mirror, or a value of the update
};

/// Every replica runs it and reads the memory of all of them. A part is one of as many equal runs
/// of elements as there are replicas, the last ones padded with zeros.
enum class ReductionKind : std::uint8_t {
  Sum,      ///< the whole, in replica order
  SumPart,  ///< the replica's part of the sum
  Gather    ///< the whole from the parts
};
std::string_view name(ReductionKind kind);

struct Reduction {
  std::string name;
  BufferId from;
  BufferId to;
  TensorType type;  ///< of the result
  ReductionKind kind = ReductionKind::Sum;
  TensorType operand = {};
  bool oncePerRound = true;  ///< of the update; else with every micro-batch
};

/// Between owners of a Program that was cut (owners.h): a transfer, or only that a task is done.
/// Its number is the same for both.
struct Message {
  std::string name;
  std::int32_t from = 0;  ///< device
  std::int32_t to = 0;
  std::int32_t transfer = -1;  ///< -1: no data
};

enum class TaskKind : std::uint8_t { Run, Feed, Drain, Transfer, Reduce, Barrier, Send, Receive };
inline constexpr std::size_t kTaskKinds = 8;
std::string_view name(TaskKind kind);

/// Completion of task `task` of lane `lane`, in this round or in an earlier one.
struct Wait {
  std::int32_t lane = 0;
  std::int32_t task = 0;
  std::int32_t roundsBack = 0;
  bool allReplicas = false;  ///< of that task in every replica
  bool operator==(const Wait&) const = default;
};

/// For the ring `buffer`, the slot that a task uses in the first round of a step. Every round moves
/// on by its micro-batches, so that a ring is as deep between rounds as inside one.
struct Slot {
  BufferId buffer;
  std::int32_t slot = 0;
};

/// Small and plain; waits and slots are ranges of the Program's flat arrays.
struct Task {
  TaskKind kind = TaskKind::Run;
  std::int32_t subject = 0;  ///< segment, or index into the list of its kind
  std::int32_t microBatch = 0;
  std::int64_t plannedStart = 0;  ///< who may choose takes the task with the smallest
  std::int32_t firstWait = 0;
  std::int32_t numWaits = 0;
  std::int32_t firstSlot = 0;
  std::int32_t numSlots = 0;
};

enum class LaneKind : std::uint8_t { Load, Compute, Store, Exchange, Fetch, Flush, Send, Receive };
std::string_view name(LaneKind kind);

struct Lane {
  std::int32_t device = 0;
  LaneKind kind = LaneKind::Compute;
  std::vector<Task> tasks;
  /// Exchange, Receive: the device that the copies come from; its own for sums over replicas. Send:
  /// the device that they go to. Fetch, Flush: 0 for what moves once per round, 1 for what moves
  /// with every micro-batch.
  std::int32_t peer = -1;
  /// Fetch, Flush: room in the pinned memory of the device for what moves through a file.
  std::optional<std::size_t> staging = {};
};

/// Where devices meet before they exchange data, by number of the barrier: who does.
struct Barriers {
  schedule::SyncPattern pattern = schedule::SyncPattern::Full;
  std::vector<std::vector<std::int32_t>> groups;
};

struct DevicePlan {
  std::size_t stateBytes = 0;
  std::size_t transientBytes = 0;
  std::size_t transientLowerBound = 0;
  std::size_t ownBytes = 0;      ///< what the kind of device takes for itself
  std::size_t stagingBytes = 0;  ///< pinned memory of the host; not counted here:
  std::size_t totalBytes() const { return ownBytes + stateBytes + transientBytes; }
};

struct Program {
  std::string name;
  std::int32_t microBatchesPerRound = 1;
  bool training = false;
  std::vector<DevicePlan> devices;
  DevicePlan remote;  ///< what is kept in remote memory
  std::vector<Buffer> buffers;
  std::vector<Segment> segments;
  std::vector<Stream> feeds;
  std::vector<Stream> drains;
  std::vector<Constant> constants;
  std::vector<Transfer> transfers;
  std::vector<Reduction> reductions;
  std::vector<Message> messages;     ///< of a part of a program; a whole has none
  std::optional<Barriers> barriers;  ///< none: who needs data waits for its event
  std::vector<Lane> lanes;
  std::vector<Wait> waits;
  std::vector<Slot> slots;

  const Buffer& buffer(BufferId id) const { return buffers[id.index()]; }
  std::span<const Wait> waitsOf(const Task& task) const {
    return std::span(waits).subspan(static_cast<std::size_t>(task.firstWait),
                                    static_cast<std::size_t>(task.numWaits));
  }
  std::int32_t slotIn(const Slot& slot, std::int64_t round) const {
    return static_cast<std::int32_t>((slot.slot + round * microBatchesPerRound) %
                                     buffer(slot.buffer).slots);
  }
  std::span<const Slot> slotsOf(const Task& task) const {
    return std::span(slots).subspan(static_cast<std::size_t>(task.firstSlot),
                                    static_cast<std::size_t>(task.numSlots));
  }
};

/// After how many rounds the tasks of a lane use the same slots again: what was captured of them
/// can be replayed then. At most `kLongestPeriod`, which stands for anything longer, too.
inline constexpr std::int64_t kLongestPeriod = std::int64_t{1} << 30;
std::int64_t slotPeriod(const Program& program, const Lane& lane);

/// Bytes that a device moves to and from remote memory in a round.
struct RemoteTraffic {
  std::size_t fetched = 0;
  std::size_t flushed = 0;
};
/// Of every device.
std::vector<RemoteTraffic> remoteTraffic(const Program& program);
/// Of all devices, both ways.
std::size_t remoteBytesPerRound(const Program& program);

/// What a task runs, feeds, drains, copies or sums: "forward 0", "image", ...
std::string subjectName(const Program& program, const Task& task);

/// The program as text: arenas, buffers, segments, lanes.
std::string print(const Program& program);
/// The same on every machine for the same program.
std::uint64_t hash(const Program& program);

}  // namespace sluice::program
