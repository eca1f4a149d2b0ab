// Sharing memory, dropping copies and reusing operands must not change a value: lowered programs
// against the reference, bit for bit, with ops that round once.
#include <random>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/shape_ops.h"
#include "tests/support/machine.h"
#include "tests/support/small_models.h"
#include "tests/support/tensor_types.h"

namespace sluice::runtime {
namespace {

using testing::f32;

using ir::GraphBuilder;
using ir::Value;
using sluice::testing::Machine;
using sluice::testing::MapSink;
using sluice::testing::randomInputs;
using sluice::testing::RoundReference;

constexpr std::uint64_t kLoweredSeed = 5;

/// Runs two rounds on the device and by reference; outputs and variables must have the same bits.
void expectSameAsReference(Machine& machine, LoadedProgram& loaded, const ir::Graph& graph) {
  const std::int32_t perRound = loaded.program().microBatchesPerRound;
  RoundReference reference(graph, kLoweredSeed);
  std::vector<ops::TensorMap> inputs;
  std::vector<ops::TensorMap> expected;
  for (std::int64_t round = 0; round < 2; ++round) {
    for (std::int64_t m = 0; m < perRound; ++m) {
      inputs.push_back(randomInputs(graph, 11, round * perRound + m));
    }
    const std::span<const ops::TensorMap> mine =
        std::span(inputs).last(static_cast<std::size_t>(perRound));
    for (ops::TensorMap& outputs : reference.round(mine)) {
      expected.push_back(std::move(outputs));
    }
  }
  const MapSink sink = machine.step(loaded, inputs);
  for (const ir::Output& output : graph.outputs()) {
    const auto& got = sink.results.at(output.name);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t m = 0; m < got.size(); ++m) {
      EXPECT_EQ(got[m].first, static_cast<std::int64_t>(m));
      EXPECT_TRUE(got[m].second.sameBits(expected[m].at(output.name)))
          << output.name << " of micro-batch " << m;
    }
  }
  for (const ir::Variable& variable : graph.variables()) {
    if (machine.state.contains(variable.name)) {
      EXPECT_TRUE(machine.state.read(variable.name).sameBits(reference.variables.at(variable.name)))
          << variable.name;
    }
  }
}

void expectSameAsReference(const ir::Graph& graph, std::int32_t perRound) {
  Machine machine(1, kLoweredSeed);
  const auto loaded = machine.load(graph, {.microBatchesPerRound = perRound});
  expectSameAsReference(machine, *loaded, graph);
}

/// A graph with variables a and b of four elements and an input x.
struct Fixture {
  ir::Graph graph{"values"};
  GraphBuilder b{graph};
  Value x;

  Fixture() {
    for (const char* name : {"a", "b"}) {
      graph.addVariable(
          {.name = name, .type = f32({4}), .initializer = ir::Initializer::uniform(-1, 1)});
    }
    x = b.input("x", f32({4}));
  }
};

TEST(LoweredValues, AnOldValueSurvivesTheAssign) {
  Fixture f;
  const Value old = f.b.variable("a");
  f.b.assign("a", ops::add(f.b, old, f.x));
  f.graph.addOutput("difference", ops::sub(f.b, f.b.variable("a"), old));
  f.graph.addOutput("old", old);
  expectSameAsReference(f.graph, 2);
}

TEST(LoweredValues, AViewOfAnOldValueSurvivesTheAssign) {
  Fixture f;
  const Value old = ops::reshape(f.b, f.b.variable("a"), {2, 2});
  f.b.assign("a", f.x);
  f.graph.addOutput("old", old);
  f.graph.addOutput("again", ops::neg(f.b, old));
  expectSameAsReference(f.graph, 2);
}

TEST(LoweredValues, TwoVariablesMaySwap) {
  Fixture f;
  const Value a = f.b.variable("a");
  const Value b = f.b.variable("b");
  f.b.assign("a", b);
  f.b.assign("b", a);
  f.graph.addOutput("x", ops::neg(f.b, f.x));
  expectSameAsReference(f.graph, 3);
}

TEST(LoweredValues, AVariableMayBeAssignedToItselfOrTwice) {
  Fixture f;
  f.b.assign("a", f.b.variable("a"));
  const Value sum = ops::add(f.b, f.b.variable("a"), f.x);
  f.b.assign("a", sum);
  f.b.assign("b", sum);
  f.b.assign("a", ops::mul(f.b, sum, f.b.variable("b")));
  f.graph.addOutput("sum", sum);
  expectSameAsReference(f.graph, 2);
}

TEST(LoweredValues, OneValueMayBeSeveralOutputs) {
  Fixture f;
  const Value y = ops::neg(f.b, f.x);
  f.graph.addOutput("y", y);
  f.graph.addOutput("same", y);
  f.graph.addOutput("x", f.x);
  f.graph.addOutput("weight", f.b.variable("b"));
  f.graph.addOutput("constant", f.b.constant(HostTensor::full(f32({3}), 2.5)));
  expectSameAsReference(f.graph, 3);
}

TEST(LoweredValues, OutputsOfTheUpdateReachEveryMicroBatch) {
  Fixture f;
  f.b.place.pass = ir::Pass::Backward;
  f.b.assign("b", f.x, "sum");
  f.b.place.pass = ir::Pass::Update;
  const Value next = ops::sub(f.b, f.b.variable("a"), f.b.variable("b"));
  f.b.assign("a", next);
  f.graph.addOutput("next", next);
  for (const std::int32_t perRound : {1, 2, 5}) {
    expectSameAsReference(f.graph, perRound);
  }
}

TEST(LoweredValues, ALargeValueMayBeWrittenStraightIntoItsVariable) {
  ir::Graph graph("large");
  GraphBuilder b(graph);
  graph.addVariable({.name = "w", .type = f32({500, 7})});
  b.assign("w", ops::broadcastTo(b, b.input("x", f32({7})), {500, 7}));
  expectSameAsReference(graph, 2);
}

/// Element-wise ops over two inputs and three variables, with assigns of all modes in between.
ir::Graph randomGraph(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  ir::Graph graph("random");
  GraphBuilder b(graph);
  const std::vector<std::string> variables = {"a", "b", "c"};
  for (const std::string& name : variables) {
    graph.addVariable(
        {.name = name, .type = f32({5}), .initializer = ir::Initializer::uniform(-1, 1)});
  }
  std::vector<Value> values = {b.input("x", f32({5})), b.input("y", f32({5}))};
  const auto any = [&] { return values[pick(values.size())]; };
  for (int i = 0; i < 25; ++i) {
    switch (pick(8)) {
      case 0:
        values.push_back(b.variable(variables[pick(3)]));
        break;
      case 1:
        b.assign(variables[pick(3)], any());
        break;
      case 2:
        b.assign(variables[pick(3)], values.back(), pick(2) == 0 ? "sum" : "set");
        break;
      case 3:
        values.push_back(ops::maximum(b, any(), any()));
        break;
      case 4:
        values.push_back(ops::mul(b, any(), any()));
        break;
      case 5:
        values.push_back(ops::sub(b, values.back(), any()));
        break;
      case 6:
        values.push_back(ops::neg(b, values.back()));
        break;
      default:
        values.push_back(ops::add(b, any(), values.back()));
        break;
    }
  }
  for (int i = 0; i < 3; ++i) {
    graph.addOutput("out" + std::to_string(i), any());
  }
  return graph;
}

TEST(LoweredValues, RandomGraphsGiveTheBitsOfTheReference) {
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expectSameAsReference(randomGraph(seed), 1 + static_cast<std::int32_t>(seed % 3));
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

/// Whether verify() lets the program pass.
bool accepted(const program::Program& program) {
  try {
    program::verify(program);
  } catch (const InternalError&) {
    return false;
  }
  return true;
}

TEST(LoweredValues, AMovedBufferIsRefusedOrDoesNotMatter) {
  int refused = 0;
  int harmless = 0;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const ir::Graph graph = randomGraph(seed);
    Machine machine(1, kLoweredSeed);
    program::StatePlan plan;
    program::Program program = program::lower(
        graph, plan, {.microBatchesPerRound = 2, .targets = {program::targetOf(*machine.device)}});
    const std::size_t planned = program.devices[0].transientBytes +=
        4 * machine.device->info().alignment;
    program::Buffer& moved = program.buffers[random() % program.buffers.size()];
    if (moved.region == program::Region::State || moved.bytes == 0) {
      continue;
    }
    const std::size_t room = (planned - moved.totalBytes()) / moved.alignment + 1;
    moved.offset = random() % room * moved.alignment;
    if (!accepted(program)) {
      ++refused;
      continue;
    }
    ++harmless;
    machine.state.adopt(std::move(plan));
    const auto loaded = machine.engine.load(std::move(program));
    expectSameAsReference(machine, *loaded, graph);
  }
  EXPECT_GT(refused, 20);
  EXPECT_GT(harmless, 10);
}

}  // namespace
}  // namespace sluice::runtime
