#include "sluice/program/lower.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/program/barriers.h"
#include "sluice/program/memory_plan.h"
#include "sluice/program/round.h"
#include "sluice/program/streaming.h"

namespace sluice::program {
namespace {

/// What a loop of micro-batches cannot do is refused here, with the reason.
void checkRounds(const ir::Graph& graph, const LowerOptions& options) {
  if (options.microBatchesPerRound < 1) {
    raise<InvalidArgument>("a round needs at least 1 micro-batch, got {}",
                           options.microBatchesPerRound);
  }
  if (options.lookahead < 0 || options.drainRule.every < 1) {
    raise<InvalidArgument>(
        "a round needs a lookahead of at least 0 and a drain rule a period of at least 1, got {} "
        "and {}",
        options.lookahead,
        options.drainRule.every);
  }
  SLUICE_CHECK(options.drainRules.empty() || options.drainRules.size() == graph.outputs().size(),
               "{} drain rules for {} outputs",
               options.drainRules.size(),
               graph.outputs().size());
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.place.pass != ir::Pass::Update) {
      continue;
    }
    for (const ir::Value v : op.inputs) {
      const ir::Op& producer = graph.op(v.op);
      const bool perMicroBatch = producer.place.pass != ir::Pass::Update &&
                                 !producer.is(ir::kVariable) && !producer.is(ir::kConstant);
      if (perMicroBatch && (options.microBatchesPerRound > 1 || producer.is(ir::kInput))) {
        raise<InvalidArgument>(
            "the update reads '{}', a value of one micro-batch, but there are {} micro-batches per "
            "update; accumulate it in a variable",
            producer.name,
            options.microBatchesPerRound);
      }
    }
  }
}

/// Segments keep their indices; those without calls are never run.
void fillSegments(Program& program, Emitted& emitted) {
  for (const parallel::SegmentInfo& info : emitted.segments) {
    program.segments.push_back({info, {}});
    program.training = program.training || info.kind == SegmentKind::Update;
  }
  for (EmittedCall& e : emitted.calls) {
    program.segments[e.segment].calls.push_back(std::move(e.call));
  }
}

void placeOnDevices(Program& program,
                    Emitted& emitted,
                    const Round& round,
                    const StatePlan& state,
                    const LowerOptions& options) {
  const auto devices = program.devices.count();
  const Table<PlanSummary> plans = placeBuffers(emitted, round, devices);
  program.remote = {.stateBytes = state.bytes(kRemote),
                    .transientBytes = plans.back().transientBytes,
                    .transientLowerBound = plans.back().transientLowerBound};
  for (std::int32_t d = 0; d < devices; ++d) {
    const PlanSummary& plan = plans[d];
    DevicePlan& made = program.devices[d];
    made = {.stateBytes = state.bytes(d),
            .transientBytes = plan.transientBytes,
            .transientLowerBound = plan.transientLowerBound,
            .ownBytes = options.target(d).ownBytes};
    if (options.memoryPerDevice != 0 && made.totalBytes() > options.memoryPerDevice) {
      // A need that is hardly more than the limit shows only in bytes.
      const bool alike = formatBytes(made.totalBytes()) == formatBytes(options.memoryPerDevice);
      const auto text = [&](std::size_t bytes) {
        return alike ? fmt::format("{} B", bytes) : formatBytes(bytes);
      };
      raise<OutOfMemory>(
          "device {} needs {} ({} of variables, {} of activations and scratch{}) but may use {}{}; "
          "the "
          "largest buffers at the peak are:{}",
          d,
          text(made.totalBytes()),
          formatBytes(made.stateBytes),
          formatBytes(plan.transientBytes),
          made.ownBytes == 0
              ? ""
              : fmt::format(", {} that the device takes for itself", formatBytes(made.ownBytes)),
          text(options.memoryPerDevice),
          plan.segmentAtPeak.empty() ? "" : ", most of all in " + plan.segmentAtPeak,
          plan.largestAtPeak);
    }
  }
}

/// Gives pinned memory to the data that the host cannot write to or read from its place.
class StagingPlan {
 public:
  StagingPlan(Program& program, const LowerOptions& options) : p_(program), options_(options) {}

  void make() {
    for (Port& feed : p_.feeds) {
      const Buffer& buffer = p_.buffer(feed.buffer);
      stage(buffer.device,
            buffer.slotStride() * static_cast<std::size_t>(buffer.slots),
            feed.staging);
    }
    for (Port& drain : p_.drains) {
      stage(p_.buffer(drain.buffer).device, drain.type.bytes(), drain.staging);
    }
    for (Lane& lane : p_.lanes) {
      const bool remote = lane.kind == LaneKind::Fetch || lane.kind == LaneKind::Flush;
      if (remote && options_.remoteInFile) {
        std::size_t largest = 0;
        for (const Task& task : lane.tasks) {
          largest = std::max(largest, p_.transfers[task.subject].bytes);
        }
        stage(lane.device, largest, lane.staging);
      }
    }
  }

 private:
  void stage(std::int32_t device, std::size_t bytes, std::optional<std::size_t>& offset) {
    const Target target = options_.target(device);
    if (target.staged) {
      std::size_t& total = p_.devices[device].stagingBytes;
      offset = total;
      total += (bytes + target.alignment - 1) / target.alignment * target.alignment;
    }
  }

  Program& p_;
  const LowerOptions& options_;
};

/// Where every micro-batch loads the variables anew, memory for a second one is what is missing.
std::int32_t lookaheadOf(const Placed& placed, const LowerOptions& options) {
  const bool anew = placed.streaming.order == parallel::StreamOrder::MicroBatchMajor;
  return anew ? 0 : options.lookahead;
}

}  // namespace

schedule::PipelineSchedule oneDeviceSchedule(std::int32_t microBatches, bool training) {
  return schedule::schedulePipeline(
      schedule::PipelineKind::Sequential,
      {.deviceOfStage = {0}, .microBatches = microBatches, .training = training});
}

Target targetOf(const device::Device& device) {
  const device::DeviceInfo& info = device.info();
  return {.kernels = &device.kernels(),
          .alignment = info.alignment,
          .ownBytes = info.ownBytes,
          .staged = info.asynchronous || !info.hostReadable};
}

Unplaced emitKernels(const Placed& placed, StatePlan state, const LowerOptions& options) {
  SLUICE_CHECK(!options.targets.empty(), "lowering for no device");
  checkRounds(placed.graph, options);
  std::vector<std::size_t> alignments;
  std::vector<const device::KernelTable*> tables;
  for (const Target& target : options.targets) {
    alignments.push_back(target.alignment);
    tables.push_back(target.kernels);
  }
  state.setAlignments(std::move(alignments));
  Emitted emitted =
      emit({placed.graph, placed.segments, placed.homes, placed.streaming, options.packsInLoop},
           tables,
           state);
  return {std::make_shared<Emitted>(std::move(emitted)), std::move(state)};
}

namespace {

bool writesVariables(const Emitted& emitted) {
  const auto isVariable = [&](std::int32_t buffer) {
    return emitted.buffers[buffer].region == Region::State;
  };
  return std::ranges::any_of(emitted.calls,
                             [&](const EmittedCall& emittedCall) {
                               return std::ranges::any_of(emittedCall.call.outputs, isVariable);
                             }) ||
         std::ranges::any_of(
             emitted.transfers,
             [&](const Transfer& transfer) { return isVariable(transfer.to.value); }) ||
         std::ranges::any_of(emitted.collectives, [&](const Collective& collective) {
           return isVariable(collective.to.value);
         });
}

}  // namespace

Program planMemory(const Placed& placed, const Unplaced& unplaced, const LowerOptions& options) {
  Emitted& emitted = *unplaced.emitted;
  shareBuffers(emitted);
  addStreams(emitted, placed.streaming);
  const Round round(emitted,
                    placed.schedule,
                    {.microBatches = options.microBatchesPerRound,
                     .lookahead = lookaheadOf(placed, options),
                     .overlaps = placed.streaming.overlaps,
                     .sequential = options.sequential,
                     .updates = placed.streaming.updates});
  const std::vector<std::int32_t> depths = round.ringDepths();
  for (std::size_t b = 0; b < depths.size(); ++b) {
    Buffer& buffer = emitted.buffers[b];
    buffer.slots = depths[b];
    buffer.alignment = buffer.isRemote() ? kAlignment : options.target(buffer.device).alignment;
  }
  emitted.keepsPacked = options.keepsPacked && !round.streams() && !writesVariables(emitted);
  Program program;
  program.name = placed.graph.name();
  program.keepsPacked = emitted.keepsPacked;
  program.microBatchesPerRound = options.microBatchesPerRound;
  // Variables may live on devices that none of this program's segments runs on.
  std::int32_t devices = placed.segments.devices;
  for (const Buffer& buffer : emitted.buffers) {
    devices = std::max(devices, buffer.device + 1);
  }
  program.devices.resize(static_cast<std::size_t>(devices));
  placeOnDevices(program, emitted, round, unplaced.state, options);
  program.buffers = emitted.buffers;
  program.feeds = emitted.feeds;
  program.drains = emitted.drains;
  for (std::size_t i = 0; i < program.drains.size(); ++i) {
    program.drains[i].rule = options.drainRules.empty() ? options.drainRule : options.drainRules[i];
  }
  program.constants = std::move(emitted.constants);
  program.transfers = emitted.transfers;
  program.collectives = emitted.collectives;
  round.write(program);
  fillSegments(program, emitted);
  limitOverlap(program, options.overlap);
  if (options.barriers) {
    addBarriers(program, *options.barriers);
  }
  StagingPlan(program, options).make();
  return program;
}

Program lower(const Placed& placed, StatePlan& state, const LowerOptions& options) {
  Unplaced unplaced = emitKernels(placed, state, options);
  Program program = planMemory(placed, unplaced, options);
  state = std::move(unplaced.state);
  return program;
}

Program lower(ir::Graph graph, StatePlan& state, const LowerOptions& options) {
  checkRounds(graph, options);
  parallel::VariableHomes homes;
  bool training = false;
  for (const ir::OpId id : graph.order()) {
    training = training || graph.op(id).place.pass == ir::Pass::Backward;
  }
  parallel::placeByBlocks(
      graph,
      {.deviceOfStage = {0}, .stageOfBlock = std::vector<std::int32_t>(graph.blocks().size(), 0)},
      homes);
  const parallel::SegmentPlan segments = parallel::cutSegments(graph, {});
  const schedule::PipelineSchedule schedule =
      oneDeviceSchedule(options.microBatchesPerRound, training);
  return lower(Placed{graph, segments, homes, schedule}, state, options);
}

}  // namespace sluice::program
