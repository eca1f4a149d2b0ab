// Orders of the work of a pipeline. For every device there is a list of (stage, micro-batch) pieces
// with the times of an event-driven run of that list, a bound that no order can beat, and the
// memory that the device holds. Integers in, integers out; lowering turns the orders into lanes.
//
// F(s,m) follows F of all stages of the previous slot. B(s,m) follows F(s,m) and B of all stages of
// the next slot. If the backward pass is split, the same holds for its input part, and the weight
// part follows its own input part. Within one stage and kind, micro-batches run in ascending order.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace sluice::schedule {

/// Backward is a whole backward pass; BackwardInput and BackwardWeight are the parts of a split.
enum class WorkKind : std::uint8_t { Forward, Backward, BackwardInput, BackwardWeight };

/// How drawings and lists name it: F; B for a backward pass or its input part; W.
constexpr char letter(WorkKind kind) {
  return kind == WorkKind::Forward ? 'F' : kind == WorkKind::BackwardWeight ? 'W' : 'B';
}

/// Durations in any unit. Inference uses only `forward`; a whole backward is the sum of its parts.
struct StageCost {
  std::int64_t forward = 1;
  std::int64_t backwardInput = 1;
  std::int64_t backwardWeight = 1;
};

struct StageBytes {
  /// Held from the start of F to the end of B, or of the input part of a split B.
  std::int64_t activations = 1;
  /// Held from the start of the input part to the end of the weight part; a whole B holds none.
  std::int64_t weightGradInputs = 0;
};

struct PipelineProblem {
  /// The device of each stage in data-flow order; devices may repeat in any pattern.
  std::vector<std::int32_t> deviceOfStage;
  /// Empty: stage i has slot i. Stages of one slot are independent and on different devices.
  std::vector<std::int32_t> slotOfStage = {};
  std::int32_t microBatches = 1;
  bool training = true;
  std::vector<StageCost> costs = {};       ///< one per stage; empty: all 1
  std::vector<StageBytes> bytes = {};      ///< one per stage; empty: one unit of activations
  std::int64_t transferCost = 0;           ///< latency between different devices
  std::vector<std::int64_t> byteCap = {};  ///< one per device; empty: no limit
};

enum class PipelineKind : std::uint8_t {
  Sequential,             ///< one micro-batch at a time over all devices (sharded)
  Grouped,                ///< a micro-batch enters in every timestep
  Interleaved,            ///< timesteps in which no device has two stages
  Popart,                 ///< like Grouped, but the last stage runs both passes in one cycle
  GPipe,                  ///< all forward passes, then all backward passes
  OneForwardOneBackward,  ///< backward passes as early as possible: S-s in flight at stage s
  /// Several stages per device; each group of micro-batches has as many as there are devices.
  Chunked,
  /// 1F1B with weight gradients moved into its gaps. No device holds more micro-batches than the
  /// first device holds in 1F1B.
  ZeroBubbleH1,
  /// Split backward pass, found by a search that uses the costs. Without a byte cap a device holds
  /// as many whole micro-batches as there are devices, or up to three times as many if that
  /// shortens the run.
  ZeroBubble,
};

/// All kinds, in the order of the enumeration.
std::span<const PipelineKind> allPipelineKinds();

/// The name that users write: "sequential", "1f1b", "zb-h1", ...
std::string_view name(PipelineKind kind);

/// Whether the kind runs the two parts of a backward pass as separate pieces.
bool splitsBackward(PipelineKind kind);

struct Work {
  WorkKind kind = WorkKind::Forward;
  std::int32_t stage = 0;
  std::int32_t microBatch = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
  bool operator==(const Work&) const = default;
};

struct PipelineSchedule {
  PipelineKind kind = PipelineKind::Sequential;
  std::vector<std::vector<Work>> devices;  ///< in each device's order, with times from a run
  std::int64_t makespan = 0;
  std::int64_t bound = 0;            ///< no order of the same pieces has a smaller makespan
  std::vector<std::int64_t> busy;    ///< per device
  std::vector<std::int64_t> bubble;  ///< per device: makespan - busy; 0 for a device without stages
  /// Per stage: most micro-batches between the start of their F and the end of their last piece.
  std::vector<std::int32_t> stashDepth;
  /// Per stage: the same until the end of B or of its input part, while `activations` are held.
  std::vector<std::int32_t> activationDepth;
  /// Per stage: most micro-batches between the start of their input part and the end of their
  /// weight part; 0 if the backward pass is whole.
  std::vector<std::int32_t> weightGradDepth;
  std::vector<std::int64_t> peakBytes;  ///< per device
  /// Idle share of the time of all devices with stages: in an even pipeline, that of the ramps.
  double rampShare = 0;
};

/// Throws InvalidArgument for an invalid problem (counts, lengths, negative numbers) and for a
/// problem that this kind of schedule cannot run within its byte cap.
PipelineSchedule schedulePipeline(PipelineKind kind, const PipelineProblem& problem);

/// The maximum of the critical path and, over devices, of earliest start + work + shortest tail. It
/// holds for every order of the problem's pieces, with or without a byte cap.
std::int64_t lowerBound(const PipelineProblem& problem, bool splitBackward);

/// Devices 0..p-1, repeated `chunks` times: the placement of Chunked.
std::vector<std::int32_t> roundRobinPlacement(std::int32_t devices, std::int32_t chunks);

/// Devices 0..p-1, then p-1..0: the placement of ZeroBubble with two chunks per device.
std::vector<std::int32_t> vPlacement(std::int32_t devices);

}  // namespace sluice::schedule

#pragma GCC visibility pop
