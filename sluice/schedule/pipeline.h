// Orders of the work of a pipeline: for every device the list of (stage, micro-batch) pieces it
// runs, with the times an event-driven run of that list has, a bound that no order can beat, and
// the memory it holds. Integers in, integers out; lowering turns the orders into lanes.
//
// F(s,m) follows F of all stages of the previous slot; B(s,m) follows F(s,m) and B of all stages of
// the next slot; with a split backward pass the same holds for its input part, and the weight part
// follows its own input part. Within one stage and kind micro-batches run in ascending order.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::schedule {

/// Backward is both parts in one piece; BackwardInput and BackwardWeight are the parts of a split.
enum class WorkKind : std::uint8_t { Forward, Backward, BackwardInput, BackwardWeight };

/// Durations in any unit. Inference uses `forward` only; a whole backward is the sum of its parts.
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
  /// One per stage in data-flow order; devices may repeat in any pattern.
  std::vector<std::int32_t> deviceOfStage;
  /// Empty: stage i has slot i. Stages of one slot are on different devices and independent.
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
  Interleaved,            ///< timesteps in which no device holds two stages
  Popart,                 ///< as Grouped, with the last stage's two passes in one cycle
  GPipe,                  ///< all forward passes, then all backward passes
  OneForwardOneBackward,  ///< backward passes as early as a stack allows: S-s in flight at stage s
  /// Several stages per device, micro-batches in groups of as many as there are devices.
  Chunked,
  /// 1F1B with weight gradients moved into its gaps: no device holds more micro-batches than the
  /// first one does in 1F1B.
  ZeroBubbleH1,
  /// Split backward pass, searched from the costs. Without a byte cap a device holds as many whole
  /// micro-batches as there are devices, up to three times that where it makes the run shorter.
  ZeroBubble,
};

/// All kinds, in the order of the enumeration.
std::span<const PipelineKind> allPipelineKinds();

/// The name users write: "sequential", "1f1b", "zb-h1", ...
std::string_view name(PipelineKind kind);

/// Whether the kind runs the two parts of a backward pass as pieces of their own.
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
  std::vector<std::vector<Work>> devices;  ///< in the order of each device, times from a run of it
  std::int64_t makespan = 0;
  std::int64_t bound = 0;            ///< no order of the same pieces has a smaller makespan
  std::vector<std::int64_t> busy;    ///< per device
  std::vector<std::int64_t> bubble;  ///< per device: makespan - busy; 0 for a device without stages
  /// Per stage: most micro-batches between the start of F and the end of their last piece.
  std::vector<std::int32_t> stashDepth;
  /// Per stage: the same up to the end of B or of the input part (what `activations` are held for).
  std::vector<std::int32_t> activationDepth;
  /// Per stage: most micro-batches between the start of the input part and the end of the weight
  /// part; 0 where the backward pass is whole.
  std::vector<std::int32_t> weightGradDepth;
  std::vector<std::int64_t> peakBytes;  ///< per device
  /// Idle share of the time of all devices that have stages: the ramps of an even pipeline.
  double rampShare = 0;
};

/// Throws InvalidArgument for a problem that makes no sense (counts, lengths, negative numbers) and
/// for one that cannot be run within its byte cap in this kind of schedule.
PipelineSchedule schedulePipeline(PipelineKind kind, const PipelineProblem& problem);

/// The largest of the critical path and, over devices, earliest start + work + shortest tail. Valid
/// for every order of the problem's pieces, with or without a byte cap.
std::int64_t lowerBound(const PipelineProblem& problem, bool splitBackward);

/// Devices 0..p-1, `chunks` times over: the placement of Chunked.
std::vector<std::int32_t> roundRobinPlacement(std::int32_t devices, std::int32_t chunks);

/// Devices 0..p-1, p-1..0: the two chunks per device of ZeroBubble.
std::vector<std::int32_t> vPlacement(std::int32_t devices);

}  // namespace sluice::schedule
