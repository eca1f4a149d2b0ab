#include "sluice/program/lower.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/program/memory_plan.h"

namespace sluice::program {
namespace {

constexpr std::int32_t kLoadLane = 0;
constexpr std::int32_t kComputeLane = 1;
constexpr std::int32_t kStoreLane = 2;

/// What a loop of micro-batches cannot do is refused here, with the reason.
void checkRounds(const ir::Graph& graph, const LowerOptions& options) {
  if (options.microBatchesPerRound < 1) {
    raise<InvalidArgument>("a round needs at least 1 micro-batch, got {}",
                           options.microBatchesPerRound);
  }
  if (options.feedSlots < 1 || options.drainSlots < 1 || options.drainRule.every < 1) {
    raise<InvalidArgument>(
        "feeds and drains need at least 1 slot and a drain rule a period of at least 1, got {}, {} "
        "and {}",
        options.feedSlots,
        options.drainSlots,
        options.drainRule.every);
  }
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

/// The first writer's segment and the last toucher's segment of each buffer.
struct Touch {
  SegmentKind writer = SegmentKind::Forward;
  SegmentKind last = SegmentKind::Forward;
};

std::vector<Touch> touchesOf(const Emitted& emitted) {
  std::vector<Touch> touches(emitted.buffers.size());
  for (const EmittedCall& e : emitted.calls) {
    for (const std::int32_t b : e.call.inputs) {
      touches[static_cast<std::size_t>(b)].last = e.segment;
    }
    for (const std::int32_t b : e.call.outputs) {
      touches[static_cast<std::size_t>(b)] = {e.segment, e.segment};
    }
  }
  return touches;
}

/// Lays out the tasks of one round on the three lanes of one device.
class RoundBuilder {
 public:
  RoundBuilder(Program& program, std::vector<Touch> touches)
      : program_(program), touches_(std::move(touches)), count_(program.microBatchesPerRound) {
    for (std::size_t i = 0; i < program.segments.size(); ++i) {
      segmentIndex_[static_cast<std::size_t>(program.segments[i].kind)] =
          static_cast<std::int32_t>(i);
    }
    for (const Stream& drain : program.drains) {
      std::int32_t& count = isOfUpdate(drain) ? updateDrains_ : loopDrains_;
      drainRank_.push_back(count++);
    }
    program_.lanes = {{.device = 0, .kind = LaneKind::Load, .tasks = {}},
                      {.device = 0, .kind = LaneKind::Compute, .tasks = {}},
                      {.device = 0, .kind = LaneKind::Store, .tasks = {}}};
  }

  void build() {
    for (std::int32_t m = 0; m < count_; ++m) {
      for (std::size_t f = 0; f < program_.feeds.size(); ++f) {
        addFeed(static_cast<std::int32_t>(f), m);
      }
    }
    if (has(SegmentKind::Pack)) {
      addRun(SegmentKind::Pack, 0);
    }
    for (std::int32_t m = 0; m < count_; ++m) {
      addRun(SegmentKind::Forward, m);
      if (has(SegmentKind::Backward)) {
        addRun(SegmentKind::Backward, m);
      }
    }
    if (has(SegmentKind::Update)) {
      addRun(SegmentKind::Update, count_ - 1);
    }
    addDrains(false);
    addDrains(true);
  }

 private:
  bool has(SegmentKind kind) const { return segmentIndex_[static_cast<std::size_t>(kind)] >= 0; }

  /// Position in the compute lane.
  std::int32_t runIndex(SegmentKind kind, std::int32_t microBatch) const {
    const std::int32_t pack = has(SegmentKind::Pack) ? 1 : 0;
    const std::int32_t perMicroBatch = has(SegmentKind::Backward) ? 2 : 1;
    switch (kind) {
      case SegmentKind::Pack:
        return 0;
      case SegmentKind::Forward:
        return pack + microBatch * perMicroBatch;
      case SegmentKind::Backward:
        return pack + microBatch * perMicroBatch + 1;
      case SegmentKind::Update:
        return pack + count_ * perMicroBatch;
    }
    return 0;
  }
  /// What the update writes exists once per round: every micro-batch drains it, after the update.
  bool isOfUpdate(const Stream& drain) const {
    return touches_[drain.buffer.index()].writer == SegmentKind::Update;
  }
  /// Position in the store lane: the drains of the loop come first, because the loop waits for
  /// them.
  std::int32_t drainIndex(std::size_t drain, std::int32_t microBatch) const {
    const std::int32_t rank = drainRank_[drain];
    return isOfUpdate(program_.drains[drain])
               ? count_ * loopDrains_ + microBatch * updateDrains_ + rank
               : microBatch * loopDrains_ + rank;
  }

  void wait(std::int32_t lane, std::int32_t task, std::int32_t roundsBack = 0) {
    program_.waits.push_back({lane, task, roundsBack});
  }

  /// The micro-batch that used the same ring slot before m: `slots` earlier, counted over rounds.
  struct Earlier {
    std::int32_t microBatch = 0;
    std::int32_t roundsBack = 0;
  };
  Earlier earlier(std::int32_t m, std::int32_t slots) const {
    const std::int32_t roundsBack = m >= slots ? 0 : (slots - m + count_ - 1) / count_;
    return {m - slots + roundsBack * count_, roundsBack};
  }

  /// Completes the last task of a lane: waits and slots added since `firstWait` are its own.
  void finishTask(std::int32_t lane, Task task, std::size_t firstWait, std::size_t firstSlot) {
    task.firstWait = static_cast<std::int32_t>(firstWait);
    task.numWaits = static_cast<std::int32_t>(program_.waits.size() - firstWait);
    task.firstSlot = static_cast<std::int32_t>(firstSlot);
    task.numSlots = static_cast<std::int32_t>(program_.slots.size() - firstSlot);
    program_.lanes[static_cast<std::size_t>(lane)].tasks.push_back(task);
  }

  std::int32_t slotOf(BufferId buffer, std::int32_t microBatch) const {
    return microBatch % program_.buffer(buffer).slots;
  }

  void addFeed(std::int32_t feed, std::int32_t m) {
    const std::size_t firstWait = program_.waits.size();
    const std::size_t firstSlot = program_.slots.size();
    const BufferId buffer = program_.feeds[static_cast<std::size_t>(feed)].buffer;
    const Earlier before = earlier(m, program_.buffer(buffer).slots);
    wait(kComputeLane,
         runIndex(touches_[buffer.index()].last, before.microBatch),
         before.roundsBack);
    program_.slots.push_back({buffer, slotOf(buffer, m)});
    finishTask(kLoadLane,
               {.kind = TaskKind::Feed, .subject = feed, .microBatch = m},
               firstWait,
               firstSlot);
  }

  void addRun(SegmentKind kind, std::int32_t m) {
    const std::size_t firstWait = program_.waits.size();
    const std::size_t firstSlot = program_.slots.size();
    const auto feeds = static_cast<std::int32_t>(program_.feeds.size());
    if (kind == SegmentKind::Forward && feeds > 0) {
      wait(kLoadLane, (m + 1) * feeds - 1);
    }
    for (const Stream& feed : program_.feeds) {
      program_.slots.push_back({feed.buffer, slotOf(feed.buffer, m)});
    }
    for (std::size_t d = 0; d < program_.drains.size(); ++d) {
      const BufferId buffer = program_.drains[d].buffer;
      program_.slots.push_back({buffer, slotOf(buffer, m)});
      if (touches_[buffer.index()].writer == kind) {
        const Earlier before = kind == SegmentKind::Update
                                   ? Earlier{count_ - 1, 1}
                                   : earlier(m, program_.buffer(buffer).slots);
        wait(kStoreLane, drainIndex(d, before.microBatch), before.roundsBack);
      }
    }
    finishTask(kComputeLane,
               {.kind = TaskKind::Run,
                .subject = segmentIndex_[static_cast<std::size_t>(kind)],
                .microBatch = m},
               firstWait,
               firstSlot);
  }

  void addDrains(bool ofUpdate) {
    for (std::int32_t m = 0; m < count_; ++m) {
      for (std::size_t d = 0; d < program_.drains.size(); ++d) {
        if (isOfUpdate(program_.drains[d]) == ofUpdate) {
          addDrain(static_cast<std::int32_t>(d), m);
        }
      }
    }
  }

  void addDrain(std::int32_t drain, std::int32_t m) {
    const std::size_t firstWait = program_.waits.size();
    const std::size_t firstSlot = program_.slots.size();
    const BufferId buffer = program_.drains[static_cast<std::size_t>(drain)].buffer;
    wait(kComputeLane, runIndex(touches_[buffer.index()].writer, m));
    program_.slots.push_back({buffer, slotOf(buffer, m)});
    finishTask(kStoreLane,
               {.kind = TaskKind::Drain, .subject = drain, .microBatch = m},
               firstWait,
               firstSlot);
  }

  Program& program_;
  std::vector<Touch> touches_;
  std::int32_t count_;
  std::int32_t segmentIndex_[4] = {-1, -1, -1, -1};
  std::vector<std::int32_t> drainRank_;  // among the drains of the loop, or of the update
  std::int32_t loopDrains_ = 0;
  std::int32_t updateDrains_ = 0;
};

/// What the update writes is drained once per round and needs no ring.
void sizeRings(Emitted& emitted, const std::vector<Touch>& touches, const LowerOptions& options) {
  for (std::size_t b = 0; b < emitted.buffers.size(); ++b) {
    if (emitted.uses[b] == BufferUse::Feed) {
      emitted.buffers[b].slots = options.feedSlots;
    } else if (emitted.uses[b] == BufferUse::Drain) {
      emitted.buffers[b].slots = touches[b].writer == SegmentKind::Update ? 1 : options.drainSlots;
    }
  }
}

void fillSegments(Program& program, std::vector<EmittedCall>& calls) {
  for (const SegmentKind kind :
       {SegmentKind::Pack, SegmentKind::Forward, SegmentKind::Backward, SegmentKind::Update}) {
    Segment segment{.kind = kind};
    for (EmittedCall& e : calls) {
      if (e.segment == kind) {
        segment.calls.push_back(std::move(e.call));
      }
    }
    if (!segment.calls.empty() || kind == SegmentKind::Forward) {
      program.segments.push_back(std::move(segment));
    }
  }
}

}  // namespace

Program lower(const ir::Graph& graph,
              const device::KernelTable& kernels,
              StatePlan& state,
              const LowerOptions& options) {
  checkRounds(graph, options);
  StatePlan planned = state;
  Emitted emitted = emit(graph, kernels, planned);
  shareBuffers(emitted);
  const std::vector<Touch> touches = touchesOf(emitted);
  sizeRings(emitted, touches, options);
  const PlanSummary plan = placeBuffers(emitted);
  Program program;
  program.name = graph.name();
  program.microBatchesPerRound = options.microBatchesPerRound;
  program.devices = {{.stateBytes = planned.bytes(0),
                      .transientBytes = plan.transientBytes,
                      .transientLowerBound = plan.transientLowerBound}};
  const std::size_t need = program.devices[0].totalBytes();
  if (options.memoryPerDevice != 0 && need > options.memoryPerDevice) {
    raise<OutOfMemory>(
        "device 0 needs {} ({} of variables, {} of activations and scratch) but may use {}; the "
        "largest buffers at the peak are:{}",
        formatBytes(need),
        formatBytes(program.devices[0].stateBytes),
        formatBytes(plan.transientBytes),
        formatBytes(options.memoryPerDevice),
        plan.largestAtPeak);
  }
  program.buffers = std::move(emitted.buffers);
  program.feeds = std::move(emitted.feeds);
  program.drains = std::move(emitted.drains);
  for (Stream& drain : program.drains) {
    drain.rule = options.drainRule;
  }
  program.constants = std::move(emitted.constants);
  fillSegments(program, emitted.calls);
  for (const Segment& segment : program.segments) {
    program.training = program.training || segment.kind == SegmentKind::Update;
  }
  RoundBuilder(program, touches).build();
  state = std::move(planned);
  return program;
}

}  // namespace sluice::program
