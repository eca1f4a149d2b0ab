// verify() accepts what lowering makes and names every rule that a change to a Program breaks.
#include "sluice/program/verify.h"

#include <bitset>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/program/lower.h"
#include "tests/support/small_models.h"
#include "tests/support/staged_models.h"
#include "tests/support/toy_program.h"

namespace sluice::program {
namespace {

using sluice::testing::inferenceModel;
using sluice::testing::trainingModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kLoad = 0;
constexpr std::size_t kCompute = 1;
constexpr std::size_t kStore = 2;

/// Four micro-batches, a pack, forward, backward and update segment, rings of two slots.
Program training() {
  return lowered(trainingModel(), {.microBatchesPerRound = 4});
}

/// What verify has to say; empty when it is content.

Task& task(Program& program, std::size_t lane, std::size_t index) {
  return program.lanes[lane].tasks[index];
}

Segment& segment(Program& program, SegmentKind kind) {
  return *std::ranges::find(program.segments, kind, &Segment::kind);
}

/// Gives the task waits of its own: those it has, without number `dropped`, and `added`.
void changeWaits(Program& program, Task& task, std::ptrdiff_t dropped, std::vector<Wait> added) {
  const std::span<const Wait> now = program.waitsOf(task);
  std::vector<Wait> waits(now.begin(), now.end());
  if (dropped >= 0) {
    waits.erase(waits.begin() + dropped);
  }
  waits.insert(waits.end(), added.begin(), added.end());
  task.firstWait = static_cast<std::int32_t>(program.waits.size());
  task.numWaits = static_cast<std::int32_t>(waits.size());
  program.waits.insert(program.waits.end(), waits.begin(), waits.end());
}

Slot& slotOf(Program& program, const Task& task, BufferId buffer) {
  for (std::int32_t i = 0; i < task.numSlots; ++i) {
    Slot& slot = program.slots[static_cast<std::size_t>(task.firstSlot + i)];
    if (slot.buffer == buffer) {
      return slot;
    }
  }
  throw std::logic_error("the task has no such slot");
}

Buffer& variable(Program& program, std::string_view name) {
  return *std::ranges::find_if(program.buffers, [&](const Buffer& b) {
    return b.region == Region::State && b.name == name;
  });
}

TEST(Verify, AcceptsWhatLoweringMakes) {
  for (const std::int32_t count : {1, 2, 3, 5}) {
    for (const std::int32_t lookahead : {0, 1, 2}) {
      LowerOptions options{.microBatchesPerRound = count, .lookahead = lookahead};
      EXPECT_EQ(complaint(lowered(trainingModel("mean"), options)), "");
      EXPECT_EQ(complaint(lowered(inferenceModel(), options)), "");
      StatePlan state;
      options.targets = {{.kernels = &devices::cpu::cpuKernelTable()}};
      EXPECT_EQ(complaint(lower(trainingModel(), state, options)), "");
    }
  }
}

TEST(Verify, AcceptsOutputsOfTheUpdate) {
  ir::Graph graph = trainingModel();
  ir::GraphBuilder b(graph);
  b.place.pass = ir::Pass::Update;
  graph.addOutput("norm", ops::reduceSum(b, ops::square(b, b.variable("g.w")), {}));
  graph.addOutput("newBias", b.variable("bias"));
  for (const std::int32_t count : {1, 2, 3, 5}) {
    EXPECT_EQ(complaint(lowered(graph, {.microBatchesPerRound = count})), "");
  }
}

TEST(Verify, NamesBuffersThatAreNotWhereThePlanSays) {
  Program p = training();
  variable(p, "w").device = 1;
  EXPECT_THAT(complaint(p), HasSubstr("buffer 'w' is on device 1 of 1"));
  p = training();
  variable(p, "w").offset += 4;
  EXPECT_THAT(complaint(p), AllOf(HasSubstr("buffer 'w'"), HasSubstr("not a multiple of 64")));
  p = training();
  variable(p, "w").slots = 0;
  EXPECT_THAT(complaint(p), HasSubstr("buffer 'w' has 0 slots"));
  p = training();
  p.devices[0].transientBytes -= 64;
  EXPECT_THAT(complaint(p), AllOf(HasSubstr("ends outside"), HasSubstr("transient")));
  p = training();
  p.devices[0].stateBytes -= 64;
  EXPECT_THAT(complaint(p), AllOf(HasSubstr("ends outside"), HasSubstr("state")));
  p = training();
  p.buffers[p.feeds[0].buffer.index()].offset = ~std::size_t{0} / 64 * 64;
  EXPECT_THAT(complaint(p), HasSubstr("ends outside"));
}

TEST(Verify, NamesOperandsAndStreamsThatDoNotFit) {
  Program p = training();
  variable(p, "w").bytes -= 4;
  EXPECT_THAT(complaint(p), AllOf(HasSubstr("operand takes 72 bytes"), HasSubstr("'w' has 68")));
  p = training();
  segment(p, SegmentKind::Forward).calls[0].inputs[0] = 1000;
  EXPECT_THAT(complaint(p), HasSubstr("operand buffer 1000"));
  p = training();
  segment(p, SegmentKind::Forward).calls[0].inputs.pop_back();
  EXPECT_THAT(complaint(p), HasSubstr("differ in number"));
  p = training();
  p.feeds[0].type.shape = {400, 6};
  EXPECT_THAT(complaint(p), HasSubstr("feed 'x' takes 9600 bytes, its buffer has 96"));
  p = training();
  p.drains[0].type.shape = {2};
  EXPECT_THAT(complaint(p), HasSubstr("drain 'loss' takes 8 bytes, its buffer has 4"));
  p = training();
  p.drains[0].rule.every = 0;
  EXPECT_THAT(complaint(p), HasSubstr("one in 0 micro-batches"));
  p = training();
  p.constants[0].value = HostTensor(DType::F32, {100});
  EXPECT_THAT(complaint(p), AllOf(HasSubstr("constant"), HasSubstr("takes 400 bytes")));
  p = training();
  p.feeds[0].buffer = BufferId(variable(p, "w").offset / 64 + 5000);
  EXPECT_THAT(complaint(p), HasSubstr("feed 'x' is in buffer"));
}

TEST(Verify, NamesTasksThatPointNowhere) {
  Program p = training();
  changeWaits(p, task(p, kStore, 0), -1, {{.lane = 1, .task = 99}});
  EXPECT_THAT(complaint(p),
              AllOf(HasSubstr("drain 'loss' of micro-batch 0 (task 0 of lane store of device 0)"),
                    HasSubstr("task 99 of lane 1")));
  p = training();
  task(p, kStore, 0).firstWait = 100000;
  EXPECT_THAT(complaint(p), HasSubstr("its waits are [100000"));
  p = training();
  task(p, kStore, 0).numSlots = 100000;
  EXPECT_THAT(complaint(p), HasSubstr("its slots are"));
  p = training();
  slotOf(p, task(p, kLoad, 0), p.feeds[0].buffer).slot = 2;
  EXPECT_THAT(complaint(p), HasSubstr("slot 2 of buffer"));
  p = training();
  task(p, kCompute, 0).subject = 9;
  EXPECT_THAT(complaint(p), HasSubstr("run 9 of 4"));
  p = training();
  task(p, kLoad, 0).microBatch = 4;
  EXPECT_THAT(complaint(p), HasSubstr("micro-batch 4 of 4"));
}

TEST(Verify, NamesMicroBatchesThatAreMissingOrOutOfOrder) {
  Program p = training();
  p.lanes[kStore].tasks.pop_back();
  p.lanes[kStore].tasks.pop_back();
  for (std::size_t t = 0; t < p.lanes[kCompute].tasks.size(); ++t) {
    changeWaits(p, task(p, kCompute, t), -1, {});
    task(p, kCompute, t).numWaits = 0;
  }
  EXPECT_THAT(complaint(p), HasSubstr("drain loss: expected 4 per round, found 3"));
  p = training();
  std::swap(task(p, kLoad, 0).microBatch, task(p, kLoad, 2).microBatch);
  EXPECT_THAT(complaint(p), AllOf(HasSubstr("feed 'x'"), HasSubstr("expected micro-batch 0")));
  p = training();
  std::swap(task(p, kCompute, 1), task(p, kCompute, 3));
  EXPECT_THAT(complaint(p), AllOf(HasSubstr("run forward"), HasSubstr("out of order")));
  p = training();
  p.lanes[kCompute].tasks.push_back(p.lanes[kCompute].tasks.back());
  EXPECT_THAT(complaint(p), HasSubstr("run update 0: expected 1 per round, found 2"));
  p = training();
  p.lanes[kStore].tasks.push_back(p.lanes[kCompute].tasks.back());
  p.lanes[kCompute].tasks.pop_back();
  p.lanes[kCompute].tasks.push_back(p.lanes[kCompute].tasks.back());
  EXPECT_THAT(complaint(p), HasSubstr("out of order"));
}

TEST(Verify, NamesARingThatIsUsedWithoutASlot) {
  Program p = training();
  task(p, kLoad, 0).numSlots = 0;
  EXPECT_THAT(complaint(p), AllOf(HasSubstr("uses the ring 'x'"), HasSubstr("no slot")));
}

TEST(Verify, FindsARunThatDoesNotWaitForItsInput) {
  Program p = training();
  changeWaits(p, task(p, kCompute, 1), 0, {});
  EXPECT_THAT(complaint(p),
              AllOf(HasSubstr("race"),
                    HasSubstr("run forward 0 of micro-batch 0"),
                    HasSubstr("reads 'x'"),
                    HasSubstr("feed 'x' of micro-batch 0")));
}

TEST(Verify, FindsAFeedThatDoesNotWaitForTheSlot) {
  Program p = training();
  changeWaits(p, task(p, kLoad, 4), 0, {});  // micro-batch 2 takes the slot of 0
  EXPECT_THAT(complaint(p), AllOf(HasSubstr("race"), HasSubstr("'x'")));
}

TEST(Verify, FindsADrainThatDoesNotWaitForItsValue) {
  Program p = training();
  changeWaits(p, task(p, kStore, 0), 0, {});
  EXPECT_THAT(complaint(p), AllOf(HasSubstr("race"), HasSubstr("drain 'loss' of micro-batch 0")));
}

TEST(Verify, FindsARunThatOverwritesWhatIsBeingDrained) {
  Program p = lowered(inferenceModel(), {.microBatchesPerRound = 3});
  // Slot 0 of y: micro-batch 2 follows micro-batch 0 in the same round.
  std::size_t last = p.lanes[kCompute].tasks.size() - 1;
  Task& run = task(p, kCompute, last);
  ASSERT_EQ(run.numWaits, 2);
  changeWaits(p, run, 1, {});
  EXPECT_THAT(complaint(p), AllOf(HasSubstr("race"), HasSubstr("drain 'y' of micro-batch 0")));
}

TEST(Verify, DescribesADeadlockLaneByLane) {
  Program p = training();
  // Two slots: the fourth micro-batch cannot be fed before the first has run.
  changeWaits(p, task(p, kCompute, 1), -1, {{.lane = kLoad, .task = 7}});
  EXPECT_THAT(complaint(p),
              AllOf(HasSubstr("deadlock"),
                    HasSubstr("next is round 0, run forward 0 of micro-batch 0"),
                    HasSubstr("waits for round 0, feed 'target' of micro-batch 3"),
                    HasSubstr("lane load of device 0: finished round 0, feed 'target'")));
  p = training();
  changeWaits(p, task(p, kCompute, 2), -1, {{.lane = kCompute, .task = 5}});
  EXPECT_THAT(complaint(p), HasSubstr("deadlock"));
  p = training();  // shows only in the second round
  changeWaits(p, task(p, kCompute, 2), -1, {{.lane = kCompute, .task = 9, .roundsBack = 1}});
  EXPECT_EQ(complaint(p), "");
}

TEST(Verify, FindsBuffersThatShareBytesTheyMayNot) {
  Program p = training();
  variable(p, "w").offset = variable(p, "m.w").offset;
  EXPECT_THAT(complaint(p), AllOf(HasSubstr("both loaded"), HasSubstr("'w'")));
  p = training();  // a value of the forward pass over the packed weight
  const BufferId packed(segment(p, SegmentKind::Pack).calls[0].outputs[0]);
  const BufferId late(segment(p, SegmentKind::Backward).calls.back().inputs[0]);
  p.buffers[late.index()].offset = p.buffers[packed.index()].offset;
  EXPECT_THAT(complaint(p), ::testing::Not(""));
  p = training();
  p.buffers[static_cast<std::size_t>(segment(p, SegmentKind::Forward).calls[0].outputs[0])].offset =
      p.buffer(p.constants[0].buffer).offset;
  EXPECT_THAT(complaint(p),
              ::testing::AnyOf(HasSubstr("over the constant"), HasSubstr("its own operand")));
  p = training();
  p.buffers[p.feeds[0].buffer.index()].offset = p.buffer(p.feeds[1].buffer).offset;
  EXPECT_THAT(complaint(p), ::testing::AnyOf(HasSubstr("finds slot"), HasSubstr("race")));
}

TEST(Verify, FindsAKernelThatWritesOverItsOperand) {
  Program p = lowered(inferenceModel());
  const device::KernelCall& call =
      *std::ranges::find_if(segment(p, SegmentKind::Forward).calls,
                            [](const device::KernelCall& c) { return c.def->name == "matmul"; });
  p.buffers[static_cast<std::size_t>(call.scratch)].offset =
      p.buffers[static_cast<std::size_t>(call.inputs[0])].offset;
  EXPECT_THAT(complaint(p),
              AllOf(HasSubstr("matmul"), HasSubstr("scratch"), HasSubstr("own operand 'x'")));
}

TEST(Verify, FindsReadsOfAnotherMicroBatch) {
  Program p = training();
  slotOf(p, task(p, kStore, 2), p.drains[0].buffer).slot = 0;
  EXPECT_THAT(complaint(p), ::testing::AnyOf(HasSubstr("finds"), HasSubstr("race")));
  p = training();  // the forward pass of micro-batch 0 takes the slot of micro-batch 1
  Task& run = task(p, kCompute, 1);
  slotOf(p, run, p.feeds[0].buffer).slot = 1;
  changeWaits(p, run, -1, {{.lane = kLoad, .task = 3}});
  EXPECT_THAT(complaint(p),
              AllOf(HasSubstr("reads slot 1 of 'x'"),
                    HasSubstr("its own micro-batch"),
                    HasSubstr("micro-batch 1, round 0")));
}

TEST(Verify, FindsReadsOfWhatIsNotWrittenYet) {
  Program p = training();
  std::swap(task(p, kCompute, 1), task(p, kCompute, 2));  // backward in front of forward
  EXPECT_NE(complaint(p), "");
  p = training();
  segment(p, SegmentKind::Pack).calls.clear();
  EXPECT_THAT(complaint(p), HasSubstr("finds bytes that nothing has written"));
}

TEST(Verify, FindsPackedVariablesThatAProgramCannotKeep) {
  Program p = training();
  p.keepsPacked = true;
  EXPECT_THAT(complaint(p), AllOf(HasSubstr("keeps packed variables"), HasSubstr("variable")));
  p = lowered(inferenceModel(), {.microBatchesPerRound = 2, .keepsPacked = true});
  ASSERT_TRUE(p.keepsPacked);
  EXPECT_EQ(complaint(p), "");
  const BufferId packed(segment(p, SegmentKind::Pack).calls[0].outputs[0]);
  const BufferId value(segment(p, SegmentKind::Forward).calls.back().outputs[0]);
  Program shared = p;
  shared.buffers[value.index()].offset = p.buffer(packed).offset;
  EXPECT_THAT(complaint(shared), AllOf(HasSubstr("shares bytes"), HasSubstr("keeps")));
  segment(p, SegmentKind::Forward).calls.back().outputs[0] = packed.value;
  EXPECT_THAT(complaint(p), ::testing::Not(""));
}

TEST(Verify, FindsConstantsThatAreOverwritten) {
  Program p = training();
  const BufferId constant = p.constants[0].buffer;
  for (device::KernelCall& call : segment(p, SegmentKind::Backward).calls) {
    if (call.outputTypes[0].bytes() <= p.buffer(constant).bytes &&
        p.buffers[static_cast<std::size_t>(call.outputs[0])].region == Region::Transient) {
      call.outputs[0] = constant.value;
      call.inputs[0] = constant.value;
      call.inputTypes[0] = call.outputTypes[0];
      call.choice.inputs[0] = {};
      break;
    }
  }
  EXPECT_THAT(complaint(p), HasSubstr("over the constant"));
}

/// One access of one task to a range of an arena.
struct Touch {
  std::int32_t device;
  Region region;
  std::size_t begin;
  std::size_t end;
  bool write;
};

std::vector<Touch> touchesOf(const Program& p, const Task& t, std::int32_t round) {
  std::vector<Touch> touches;
  const auto touch = [&](std::int32_t b, bool write) {
    const Buffer& buffer = p.buffers[static_cast<std::size_t>(b)];
    std::size_t begin = buffer.offset;
    for (const Slot& slot : p.slotsOf(t)) {
      if (slot.buffer.value == b) {
        begin += buffer.slotStride() * static_cast<std::size_t>(p.slotIn(slot, round));
      }
    }
    touches.push_back({buffer.device, buffer.region, begin, begin + buffer.bytes, write});
  };
  const auto subject = static_cast<std::size_t>(t.subject);
  if (t.kind == TaskKind::Feed) {
    touch(p.feeds[subject].buffer.value, true);
  } else if (t.kind == TaskKind::Drain) {
    touch(p.drains[subject].buffer.value, false);
  } else if (t.kind == TaskKind::Transfer) {
    touch(p.transfers[subject].from.value, false);
    touch(p.transfers[subject].to.value, true);
  } else {
    for (const device::KernelCall& call : p.segments[subject].calls) {
      for (const std::int32_t b : call.inputs) {
        touch(b, false);
      }
      for (const std::int32_t b : call.outputs) {
        touch(b, true);
      }
      if (call.scratch >= 0) {
        touch(call.scratch, true);
      }
    }
  }
  return touches;
}

bool conflict(const std::vector<Touch>& a, const std::vector<Touch>& b) {
  for (const Touch& x : a) {
    for (const Touch& y : b) {
      if ((x.write || y.write) && x.device == y.device && x.region == y.region && x.begin < y.end &&
          y.begin < x.end) {
        return true;
      }
    }
  }
  return false;
}

/// All pairs of tasks of five rounds, by the transitive closure of lane order and waits: the
/// definition of a race, as slow as it is plain.
bool hasRace(const Program& p) {
  constexpr std::size_t kMost = 512;
  constexpr std::int32_t kRounds = 5;
  struct Node {
    std::size_t lane;
    const Task* task;
    std::int32_t round;
  };
  std::vector<Node> nodes;
  std::vector<std::size_t> first;
  for (std::size_t l = 0; l < p.lanes.size(); ++l) {
    first.push_back(nodes.size());
    for (std::int32_t r = 0; r < kRounds; ++r) {
      for (const Task& t : p.lanes[l].tasks) {
        nodes.push_back({l, &t, r});
      }
    }
  }
  std::vector<std::bitset<kMost>> before(nodes.size());  // the nodes that come before
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const std::size_t lane = nodes[n].lane;
    const auto perRound = p.lanes[lane].tasks.size();
    if (n > first[lane]) {
      before[n].set(n - 1);
    }
    const auto round = static_cast<std::int32_t>((n - first[lane]) / perRound);
    for (const Wait& wait : p.waitsOf(*nodes[n].task)) {
      if (round >= wait.roundsBack) {
        const auto target = static_cast<std::size_t>(wait.lane);
        before[n].set(first[target] + static_cast<std::size_t>(wait.task) +
                      p.lanes[target].tasks.size() *
                          static_cast<std::size_t>(round - wait.roundsBack));
      }
    }
  }
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (before[n].test(k)) {
        before[n] |= before[k];
      }
    }
  }
  for (std::size_t a = 0; a < nodes.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (nodes[a].lane != nodes[b].lane && !before[a].test(b) && !before[b].test(a) &&
          conflict(touchesOf(p, *nodes[a].task, nodes[a].round),
                   touchesOf(p, *nodes[b].task, nodes[b].round))) {
        return true;
      }
    }
  }
  return false;
}

/// How often a dropped wait left a race, and how often it did not.
struct Drops {
  int needed = 0;
  int spare = 0;
};

/// Drops a wait of the program at random and compares verify with the definition of a race.
void dropAWait(Program p, std::mt19937& random, Drops& drops) {
  const auto pick = [&](std::size_t count) { return static_cast<std::int32_t>(random() % count); };
  Task* victim = nullptr;
  while (victim == nullptr || victim->numWaits == 0) {
    Lane& lane = p.lanes[static_cast<std::size_t>(pick(p.lanes.size()))];
    victim = lane.tasks.empty() ? nullptr
                                : &lane.tasks[static_cast<std::size_t>(pick(lane.tasks.size()))];
  }
  changeWaits(p, *victim, pick(static_cast<std::size_t>(victim->numWaits)), {});
  if (hasRace(p)) {
    ++drops.needed;
    EXPECT_NE(complaint(p), "");
  } else {
    ++drops.spare;
    EXPECT_EQ(complaint(p), "");
  }
}

TEST(Verify, FindsADroppedWaitIfAndOnlyIfItLeavesARace) {
  Drops drops;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const LowerOptions options{.microBatchesPerRound = 1 + static_cast<std::int32_t>(random() % 4),
                               .lookahead = static_cast<std::int32_t>(random() % 3)};
    const Program p = lowered(random() % 2 == 0 ? trainingModel() : inferenceModel(), options);
    ASSERT_FALSE(hasRace(p));
    dropAWait(p, random, drops);
  }
  EXPECT_GT(drops.needed, 20);
  EXPECT_GT(drops.needed + drops.spare, 50);
}

TEST(Verify, FindsADroppedWaitOnSeveralDevicesIfAndOnlyIfItLeavesARace) {
  Drops drops;
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto chance = [&] { return random() % 2 == 0; };
    const ir::Graph graph = sluice::testing::chainModel({.blocks = 3,
                                                         .training = random() % 4 != 0,
                                                         .skip = chance(),
                                                         .tied = chance(),
                                                         .clipped = chance()});
    const std::vector<std::vector<std::int32_t>> devices = {{0, 1, 2}, {0, 1, 0}, {1, 0, 0}};
    const Program p =
        sluice::testing::lowerChain(graph,
                                    {.deviceOfStage = devices[random() % 3],
                                     .microBatches = 1 + static_cast<std::int32_t>(random() % 3),
                                     .kind = schedule::allPipelineKinds()[random() % 6],
                                     .lookahead = static_cast<std::int32_t>(random() % 3)},
                                    toyTargets())
            .program;
    ASSERT_FALSE(hasRace(p));
    ASSERT_EQ(complaint(p), "");
    for (int i = 0; i < 4; ++i) {
      dropAWait(p, random, drops);
    }
  }
  EXPECT_GT(drops.needed, 60);
  EXPECT_GT(drops.spare, 10);
}

}  // namespace
}  // namespace sluice::program
