// Program: one round of one replica, lowered to flat lists of tasks on planned slices of device
// memory. The Engine executes it, the verifier proves it, and the virtual clock reads the same
// lanes; nothing is looked up by name while it runs.
//
//   round      G micro-batches (G = gradient accumulation), then the update; without an update, G
//              device iterations. A step repeats the round R times.
//   lane       a list of tasks of one device, run in order. Lanes load, compute, store, exchange
//              (one for each device that sends to it), and fetch from and flush to remote memory.
//   task       runs a segment, feeds an input, drains an output, copies from another device, or
//              meets other devices at a barrier; it names the tasks that it waits for
//   buffer     a planned slice of an arena; a ring has several slots, one per micro-batch in flight
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/base/ids.h"
#include "sluice/base/table.h"
#include "sluice/device/device.h"
#include "sluice/ir/graph.h"
#include "sluice/parallel/segments.h"
#include "sluice/schedule/sync_groups.h"

namespace sluice::program {

using BufferId = Id<struct BufferTag>;
using SegmentId = Id<struct SegmentTag>;

/// The minimum alignment, which every device requires.
inline constexpr std::size_t kAlignment = 64;

/// The device number of remote memory, which is host memory for data that does not fit the devices.
inline constexpr std::int32_t kRemote = -1;

enum class Region : std::uint8_t {
  State,     ///< variables: one plan per model, shared by all its programs
  Transient  ///< everything else; the regions of a model's programs overlap
};

struct Buffer {
  std::string name;  ///< for people: the value or variable that it holds
  std::int32_t device = 0;
  Region region = Region::Transient;
  std::size_t offset = 0;
  std::size_t bytes = 0;               ///< bytes of one slot
  std::int32_t slots = 1;              ///< consecutive slots, each rounded up to the alignment
  std::size_t alignment = kAlignment;  ///< required by the device
  /// A device's copy of a remote variable for a part of the round; kernels may assign it.
  bool window = false;

  bool isRemote() const { return device == kRemote; }
  std::size_t slotStride() const { return (bytes + alignment - 1) / alignment * alignment; }
  std::size_t totalBytes() const {
    return slots == 1 ? bytes : slotStride() * static_cast<std::size_t>(slots);
  }
};

using parallel::SegmentKind;

/// A maximal list of kernels on one device between communication points. It is lowered once and
/// runs for every micro-batch. Operands of the calls are BufferIds.
struct Segment : parallel::SegmentInfo {
  std::vector<device::KernelCall> calls;
};
/// "forward 0", "update 1"
std::string name(const Segment& segment);

/// The micro-batches of a step for which an output is fetched, counted over all its rounds.
struct DrainRule {
  std::int32_t every = 1;  ///< the last of every this many micro-batches
  bool finalOnly = false;  ///< only the last micro-batch of the step

  bool applies(std::int64_t microBatch, std::int64_t microBatches) const {
    return finalOnly ? microBatch + 1 == microBatches : (microBatch + 1) % every == 0;
  }
  bool operator==(const DrainRule&) const = default;
};

/// An input or output of the model.
struct Port {
  std::string name;
  TensorType type;  ///< type of one micro-batch
  BufferId buffer;
  DrainRule rule = {};  ///< only for outputs
  /// Offset in the pinned memory of the buffer's device, if the host cannot read that device's
  /// memory. An input has as many slots there as its buffer; an output has one.
  std::optional<std::size_t> staging = {};
};

/// A tensor written once at load.
struct Constant {
  BufferId buffer;
  HostTensor value;
};

/// A copy from one device's memory to another's. One record serves both ends: the owner of the
/// destination runs the task, and when it is done, the source is free.
struct Transfer {
  std::string name;
  BufferId from;
  BufferId to;
  std::size_t bytes = 0;
  bool oncePerRound = false;  ///< a variable's mirror, or a value of the update
};

/// Every replica runs the collective and reads the memory of all replicas. The elements are divided
/// into as many equal parts as there are replicas; the last parts are padded with zeros.
enum class CollectiveKind : std::uint8_t {
  Sum,      ///< the whole sum, in replica order
  SumPart,  ///< the replica's own part of the sum
  Gather    ///< the whole value from the parts
};
std::string_view name(CollectiveKind kind);

struct Collective {
  std::string name;
  BufferId from;
  BufferId to;
  TensorType type;  ///< type of the result
  CollectiveKind kind = CollectiveKind::Sum;
  TensorType operand = {};
  bool oncePerRound = true;  ///< in the update; otherwise in every micro-batch
};

/// A message between owners of a Program that was cut (owners.h): a transfer, or only the news that
/// a task is done. Both owners use the same number for it.
struct Message {
  std::string name;
  std::int32_t from = 0;  ///< device
  std::int32_t to = 0;
  std::int32_t transfer = -1;  ///< -1: no data
};

enum class TaskKind : std::uint8_t { Run, Feed, Drain, Transfer, Reduce, Barrier, Send, Receive };
inline constexpr std::size_t kTaskKinds = 8;
std::string_view name(TaskKind kind);

/// Waits for the completion of task `task` of lane `lane`, in this round or an earlier one.
struct Wait {
  std::int32_t lane = 0;
  std::int32_t task = 0;
  std::int32_t roundsBack = 0;
  bool allReplicas = false;  ///< of that task in every replica
  bool operator==(const Wait&) const = default;
};

/// The slot of the ring `buffer` that a task uses in the first round of a step. In every round it
/// moves on by the number of micro-batches, so that a ring is as deep between rounds as within one.
struct Slot {
  BufferId buffer;
  std::int32_t slot = 0;
};

/// Small and plain; waits and slots are ranges of the Program's flat arrays.
struct Task {
  TaskKind kind = TaskKind::Run;
  std::int32_t subject = 0;  ///< segment, or index into the list of its kind
  std::int32_t microBatch = 0;
  std::int64_t plannedStart = 0;  ///< of several ready tasks, the one with the smallest goes first
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
  Table<Task> tasks;
  /// Exchange, Receive: the device that copies come from; its own device for sums over replicas.
  /// Send: the device that copies go to. Fetch, Flush: 0 for data that moves once per round, 1 for
  /// data that moves with every micro-batch.
  std::int32_t peer = -1;
  /// Fetch, Flush: offset in the device's pinned memory for data that moves through a file.
  std::optional<std::size_t> staging = {};
};

/// The devices that meet before they exchange data, by number of the barrier.
struct Barriers {
  schedule::SyncPattern pattern = schedule::SyncPattern::Full;
  Table<std::vector<std::int32_t>> groups;
};

struct DevicePlan {
  std::size_t stateBytes = 0;
  std::size_t transientBytes = 0;
  std::size_t transientLowerBound = 0;
  std::size_t ownBytes = 0;      ///< what the kind of device takes for itself
  std::size_t stagingBytes = 0;  ///< pinned memory of the host; not part of totalBytes
  std::size_t totalBytes() const { return ownBytes + stateBytes + transientBytes; }
};

struct Program {
  std::string name;
  std::int32_t microBatchesPerRound = 1;
  bool training = false;
  /// The packed copies of variables keep their bytes to themselves, and no task writes a variable:
  /// once made, the copies are good until the host changes a variable or another program runs.
  bool keepsPacked = false;
  Table<DevicePlan> devices;
  DevicePlan remote;  ///< what is kept in remote memory
  Table<Buffer> buffers;
  Table<Segment> segments;
  Table<Port> feeds;
  Table<Port> drains;
  Table<Constant> constants;
  Table<Transfer> transfers;
  Table<Collective> collectives;
  Table<Message> messages;           ///< only in a part of a program (owners.h)
  std::optional<Barriers> barriers;  ///< none: tasks wait for events instead
  Table<Lane> lanes;
  Table<Wait> waits;
  Table<Slot> slots;

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

/// The number of rounds after which the tasks of a lane use the same slots again, so that captured
/// launches can be replayed. kLongestPeriod also stands for any longer period.
inline constexpr std::int64_t kLongestPeriod = std::int64_t{1} << 30;
std::int64_t slotPeriod(const Program& program, const Lane& lane);

/// Bytes that a device moves to and from remote memory in a round.
struct RemoteTraffic {
  std::size_t fetched = 0;
  std::size_t flushed = 0;
};
/// The traffic of every device.
Table<RemoteTraffic> remoteTraffic(const Program& program);
/// The sum over all devices and both directions.
std::size_t remoteBytesPerRound(const Program& program);

/// What a task runs, feeds, drains, copies or sums: "forward 0", "image", ...
std::string subjectName(const Program& program, const Task& task);

/// The program as text: arenas, buffers, segments, lanes.
std::string print(const Program& program);
/// The same program has the same hash on every machine.
std::uint64_t hash(const Program& program);

}  // namespace sluice::program
