// What lowering promises besides the rules of verify(): budgets, refusals, the shared state plan,
// text and hash.
#include "sluice/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/program/lower.h"
#include "sluice/program/verify.h"
#include "tests/support/message_of.h"
#include "tests/support/small_models.h"
#include "tests/support/tensor_types.h"
#include "tests/support/toy_program.h"

namespace sluice::program {
namespace {

using testing::f32;

using sluice::testing::inferenceModel;
using sluice::testing::messageOf;
using sluice::testing::trainingModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Lower, RefusesAPlanOverTheBudgetAndLeavesTheStateAlone) {
  const LowerOptions free{.microBatchesPerRound = 4};
  const std::size_t need = lowered(trainingModel(), free).devices[0].totalBytes();
  StatePlan state;
  LowerOptions tight = free;
  tight.memoryPerDevice = need - 1;
  EXPECT_THAT(messageOf<OutOfMemory>([&] { lowerToy(trainingModel(), state, tight); }),
              AllOf(HasSubstr("device 0 needs " + std::to_string(need) + " B"),
                    HasSubstr("may use " + std::to_string(need - 1) + " B"),
                    HasSubstr("largest buffers"),
                    HasSubstr("matmul/scratch")));
  EXPECT_TRUE(state.variables().empty());
  EXPECT_EQ(state.bytes(0), 0U);
  tight.memoryPerDevice = need;
  EXPECT_EQ(lowerToy(trainingModel(), state, tight).devices[0].totalBytes(), need);
  EXPECT_EQ(state.variables().size(), 6U);
}

TEST(Lower, SlotsRepeatAfterThePeriodOfALane) {
  Program program;
  const auto period = [&](std::int32_t microBatches, const std::vector<std::int32_t>& rings) {
    program.microBatchesPerRound = microBatches;
    program.buffers.clear();
    program.slots.clear();
    for (const std::int32_t slots : rings) {
      program.slots.push_back({BufferId(static_cast<std::int32_t>(program.buffers.size())), 0});
      program.buffers.push_back({.slots = slots});
    }
    const Lane lane{.tasks = {{.numSlots = static_cast<std::int32_t>(rings.size())}}};
    return slotPeriod(program, lane);
  };
  EXPECT_EQ(period(1, {}), 1);
  EXPECT_EQ(period(2, {2}), 1);
  EXPECT_EQ(period(2, {3}), 3);
  EXPECT_EQ(period(2, {4}), 2);
  EXPECT_EQ(period(1, {3, 4, 6}), 12);
  EXPECT_EQ(period(6, {3, 4}), 2);
  EXPECT_EQ(period(1, {1009, 1013, 1019, 1021}), kLongestPeriod);
}

TEST(Lower, RefusesAnUpdateThatReadsOneMicroBatch) {
  ir::Graph graph("model");
  ir::GraphBuilder b(graph);
  graph.addVariable({.name = "w", .type = f32({4})});
  const ir::Value x = b.input("x", f32({4}));
  const ir::Value y = ops::exp(b, x);
  b.place.pass = ir::Pass::Update;
  b.assign("w", y);
  EXPECT_THAT(messageOf<InvalidArgument>([&] { lowered(graph, {.microBatchesPerRound = 2}); }),
              AllOf(HasSubstr("'exp'"), HasSubstr("accumulate it in a variable")));
  verify(lowered(graph, {.microBatchesPerRound = 1}));
  b.assign("w", x);
  EXPECT_THAT(messageOf<InvalidArgument>([&] { lowered(graph); }), HasSubstr("'x'"));
}

TEST(Lower, RefusesOptionsThatMakeNoRound) {
  const ir::Graph graph = inferenceModel();
  EXPECT_THAT(messageOf<InvalidArgument>([&] { lowered(graph, {.microBatchesPerRound = 0}); }),
              HasSubstr("at least 1 micro-batch"));
  EXPECT_THAT(messageOf<InvalidArgument>([&] { lowered(graph, {.lookahead = -1}); }),
              HasSubstr("lookahead"));
  EXPECT_THAT(messageOf<InvalidArgument>([&] { lowered(graph, {.drainRule = {.every = 0}}); }),
              HasSubstr("period"));
}

TEST(Lower, NamesAnOpWithoutAKernel) {
  const device::KernelTable none("none", {}, {});
  StatePlan state;
  try {
    lower(inferenceModel(), state, {.targets = {{.kernels = &none}}});
    FAIL() << "lowered without kernels";
  } catch (const Unsupported& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("kind none"), HasSubstr("add(f32[3], f32[3])")));
  }
  EXPECT_TRUE(state.variables().empty());
}

TEST(Lower, SharesOneStatePlanBetweenProgramsOfAModel) {
  StatePlan state;
  const Program small = lowerToy(inferenceModel(2), state);
  const std::size_t before = state.bytes(0);
  const std::size_t offset = state.find("w")->offset;
  const Program training = lowerToy(trainingModel(), state);
  EXPECT_EQ(small.devices[0].stateBytes, before);
  EXPECT_EQ(training.devices[0].stateBytes, state.bytes(0));
  EXPECT_EQ(state.bytes(0), 3 * before);  // weight and bias, each with gradient and momentum
  EXPECT_EQ(state.find("w")->offset, offset);
  for (const Program* program : {&small, &training}) {
    const auto w = std::ranges::find_if(program->buffers, [](const Buffer& buffer) {
      return buffer.region == Region::State && buffer.name == "w";
    });
    ASSERT_NE(w, program->buffers.end());
    EXPECT_EQ(w->offset, offset);
  }
  EXPECT_EQ(state.find("nothing"), nullptr);
  EXPECT_EQ(state.bytes(3), 0U);
}

TEST(StatePlan, RefusesAVariableOfAnotherType) {
  StatePlan state;
  state.add({.name = "w", .type = f32({4})}, 0);
  EXPECT_THAT(
      messageOf<InvalidArgument>([&] { state.add({.name = "w", .type = f32({5})}, 0); }),
      AllOf(HasSubstr("variable 'w' is f32[5]"), HasSubstr("f32[4]"), HasSubstr("same model")));
  EXPECT_EQ(state.bytes(0), 64U);
}

TEST(Lower, WritesAnAssignedValueStraightIntoTheVariable) {
  const Program p = lowered(trainingModel());
  const auto update = std::ranges::find(p.segments, SegmentKind::Update, &Segment::kind);
  std::vector<std::string> writers;
  for (const device::KernelCall& call : update->calls) {
    const Buffer& buffer = p.buffers[static_cast<std::size_t>(call.outputs[0])];
    if (buffer.region == Region::State) {
      writers.push_back(buffer.name + " by " + std::string(call.def->name));
    }
  }
  // The momentum is still read behind its assign, so it is copied.
  EXPECT_THAT(
      writers,
      ::testing::ElementsAre("m.w by reorder", "w by sub", "m.bias by reorder", "bias by sub"));
}

TEST(Lower, GivesMemoryOnlyToBuffersThatAreUsed) {
  ir::Graph graph("model");
  ir::GraphBuilder b(graph);
  graph.addVariable({.name = "w", .type = f32({1000})});
  const ir::Value x = b.input("x", f32({}));
  b.assign("w", ops::broadcastTo(b, x, {1000}));
  const Program p = lowered(graph, {.lookahead = 0});
  verify(p);
  EXPECT_EQ(p.devices[0].transientBytes, 64U);
}

TEST(Lower, LetsRingsReachOverRounds) {
  const Program p = lowered(inferenceModel(), {.lookahead = 2});
  verify(p);
  // With one micro-batch per round, a slot is free again when the round three before is done.
  const Task& feed = p.lanes[0].tasks[0];
  ASSERT_EQ(p.waitsOf(feed).size(), 1U);
  EXPECT_EQ(p.waitsOf(feed)[0].roundsBack, 3);
  EXPECT_EQ(p.slotIn(p.slotsOf(feed)[0], 0), 0);
  EXPECT_EQ(p.slotIn(p.slotsOf(feed)[0], 4), 1);
}

TEST(Lower, PacksAWeightOncePerRound) {
  const Program p = lowered(trainingModel(), {.microBatchesPerRound = 3});
  ASSERT_EQ(p.segments.front().kind, SegmentKind::Pack);
  ASSERT_EQ(p.segments.front().calls.size(), 1U);
  EXPECT_EQ(p.segments.front().calls[0].choice.outputs[0].str(), "opaque");
  // Pack, three times forward and backward, update.
  EXPECT_EQ(p.lanes[1].tasks.size(), 8U);
}

TEST(Lower, PacksAConstantOncePerRound) {
  ir::Graph graph("model");
  ir::GraphBuilder b(graph);
  const ir::Value x = b.input("x", f32({2, 3}));
  graph.addOutput("y", ops::matmul(b, x, b.constant(HostTensor::full(f32({3, 4}), 1))));
  const Program p = lowered(graph, {.microBatchesPerRound = 3});
  verify(p);
  ASSERT_EQ(p.segments.front().kind, SegmentKind::Pack);
  ASSERT_EQ(p.segments.front().calls.size(), 1U);
  EXPECT_EQ(p.segments.front().calls[0].choice.outputs[0].str(), "opaque");
  EXPECT_EQ(p.segments.front().calls[0].inputs[0], p.constants[0].buffer.value);
  // Pack, three times forward.
  EXPECT_EQ(p.lanes[1].tasks.size(), 4U);
}

TEST(DrainRule, PicksMicroBatchesOfAStep) {
  const auto picked = [](DrainRule rule, std::int64_t total) {
    std::vector<std::int64_t> result;
    for (std::int64_t m = 0; m < total; ++m) {
      if (rule.applies(m, total)) {
        result.push_back(m);
      }
    }
    return result;
  };
  EXPECT_THAT(picked({}, 3), ::testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(picked({.every = 2}, 5), ::testing::ElementsAre(1, 3));
  EXPECT_THAT(picked({.finalOnly = true}, 5), ::testing::ElementsAre(4));
}

TEST(Program, IsPrintedWithEverythingThatRuns) {
  const std::string text =
      print(lowered(trainingModel(), {.microBatchesPerRound = 2, .drainRule = {.every = 2}}));
  EXPECT_THAT(text,
              AllOf(HasSubstr("program \"training\": 2 micro-batches per round, then an update"),
                    HasSubstr("device 0: state 576 B, transient"),
                    HasSubstr("input \"x\" f32[4, 6] at T+"),
                    HasSubstr("output \"loss\" f32[] at T+"),
                    HasSubstr("2 slots, every 2"),
                    HasSubstr("constant f32[3] at T+")));
  EXPECT_THAT(text,
              AllOf(HasSubstr("segment pack on device 0"),
                    HasSubstr("segment update 0 on device 0"),
                    HasSubstr("matmul [toy] (T+"),
                    HasSubstr(" scratch T+"),
                    HasSubstr("reorder [toy] (S+"),
                    HasSubstr("lane load0"),
                    HasSubstr("feed x m1 after compute0:"),
                    HasSubstr("run forward 0 m0 after load0:1"),
                    HasSubstr("drain loss m1 after compute0:")));
  EXPECT_THAT(print(lowered(inferenceModel(), {.drainRule = {.finalOnly = true}})),
              AllOf(HasSubstr("1 micro-batch per round\n"), HasSubstr("the last of a step")));
}

TEST(Program, HashIsStableAndTellsProgramsApart) {
  const auto model = [](double alpha, float constant) {
    ir::Graph graph("model");
    ir::GraphBuilder b(graph);
    const ir::Value x = b.input("x", f32({4}));
    const ir::Value c = b.constant(HostTensor::scalar(constant));
    graph.addOutput("y", ops::leakyRelu(b, ops::add(b, x, c), alpha));
    return graph;
  };
  const std::uint64_t first = hash(lowered(model(0.1, 1.0F)));
  EXPECT_EQ(hash(lowered(model(0.1, 1.0F))), first);
  EXPECT_NE(hash(lowered(model(0.2, 1.0F))), first);
  EXPECT_NE(hash(lowered(model(0.1, 2.0F))), first);
  EXPECT_NE(hash(lowered(model(0.1, 1.0F), {.microBatchesPerRound = 2})), first);
  EXPECT_NE(hash(lowered(model(0.1, 1.0F), {.drainRule = {.finalOnly = true}})), first);
  Program changed = lowered(model(0.1, 1.0F));
  changed.segments[1].calls[0].choice.config = "tile 8";
  EXPECT_NE(hash(changed), first);
  changed = lowered(model(0.1, 1.0F));
  changed.segments[1].calls[0].choice.outputs[0].blob = "nhwc";
  EXPECT_NE(hash(changed), first);
  changed = lowered(model(0.1, 1.0F));
  changed.waits[0].roundsBack += 1;
  EXPECT_NE(hash(changed), first);
}

}  // namespace
}  // namespace sluice::program
