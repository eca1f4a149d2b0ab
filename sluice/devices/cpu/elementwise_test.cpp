// The element-wise engine: every broadcast pattern, layout and in-place use against the references;
// fused against separate bodies and thread counts against each other bit for bit.
#include <cstring>
#include <memory>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/cpu/kernels/block_program.h"
#include "sluice/ir/graph.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/shape_ops.h"
#include "tests/support/device_run.h"
#include "tests/support/random_tensor.h"

namespace sluice::devices::cpu {
namespace {

using device::Layout;
using sluice::testing::DeviceRun;
using sluice::testing::randomTensor;
using sluice::testing::runOnDevice;
using sluice::testing::runOpByOp;

/// The bits of NaNs do not count.
::testing::AssertionResult sameValues(const HostTensor& a, const HostTensor& b) {
  if (a.type() != b.type()) {
    return ::testing::AssertionFailure() << a.type().str() << " against " << b.type().str();
  }
  for (std::int64_t i = 0; i < a.shape().elements(); ++i) {
    const double x = a.at(i);
    const double y = b.at(i);
    if (!(x == y || (x != x && y != y)) || std::signbit(x) != std::signbit(y)) {
      if (x != x && y != y) {
        continue;
      }
      return ::testing::AssertionFailure() << "element " << i << ": " << x << " against " << y;
    }
  }
  return ::testing::AssertionSuccess();
}

HostTensor random(std::uint64_t seed, DType dtype, const Shape& shape) {
  return randomTensor(seed, {dtype, shape}, -3, 3);
}

struct Pattern {
  Shape x;
  Shape y;
};

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> kPatterns = {
      {{}, {}},
      {{1}, {}},
      {{7}, {7}},
      {{0, 3}, {1, 3}},
      {{65537}, {65537}},
      {{300, 70}, {70}},
      {{300, 70}, {300, 1}},
      {{300, 200}, {200}},
      {{300, 200}, {300, 1}},
      {{1, 200}, {300, 1}},
      {{3, 1}, {1, 5}},
      {{2, 3, 4, 5}, {3, 1, 1}},
      {{2, 3, 17, 16}, {3, 1, 1}},
      {{2, 3, 17, 16}, {2, 3, 1, 1}},
      {{2, 130, 3, 3}, {1, 130, 1, 1}},
      {{4, 3, 5}, {4, 1, 5}},
      {{4, 300, 1}, {1, 300, 7}},
      {{2, 3, 2, 3, 2}, {2, 1, 2, 1, 2}},
      {{2, 1, 2, 1, 2, 1, 3}, {2, 1, 3, 1, 2, 1}},
      {{40000}, {}},
  };
  return kPatterns;
}

TEST(Elementwise, AddsWithEveryBroadcastPatternInEveryTypeAndLayout) {
  const auto device = makeCpuDevice({.threads = 2});
  for (const DType dtype :
       {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::I32, DType::U64}) {
    for (const auto& [x, y] : patterns()) {
      for (const Layout& layout : {Layout::plain(), Layout::channelsLast()}) {
        const std::vector<HostTensor> in = {random(1, dtype, x), random(2, dtype, y)};
        const HostTensor expected = ops::evaluate(ops::kSub, {}, in)[0];
        const HostTensor actual =
            runOnDevice(*device, {.def = ops::kSub, .inputs = in, .follow = layout})[0];
        ASSERT_TRUE(actual.sameBits(expected))
            << x.str() << " - " << y.str() << " " << name(dtype) << " " << layout.str();
        const HostTensor swapped =
            runOnDevice(*device, {.def = ops::kSub, .inputs = {in[1], in[0]}, .follow = layout})[0];
        ASSERT_TRUE(swapped.sameBits(ops::evaluate(ops::kSub, {}, {in[1], in[0]})[0]));
      }
    }
  }
}

TEST(Elementwise, ComparesAndChoosesWithBroadcasting) {
  const auto device = makeCpuDevice({.threads = 2});
  for (const DType dtype : {DType::F32, DType::BF16, DType::F64, DType::U8, DType::Bool}) {
    for (const auto& [x, y] : patterns()) {
      const std::vector<HostTensor> in = {random(1, dtype, x), random(2, dtype, y)};
      const HostTensor equal = ops::evaluate(ops::kEqual, {}, in)[0];
      ASSERT_TRUE(runOnDevice(*device, {.def = ops::kEqual, .inputs = in})[0].sameBits(equal));
      for (const Shape& shape : {equal.shape(), Shape{}, y}) {
        const std::vector<HostTensor> all = {random(3, DType::Bool, shape), in[0], in[1]};
        ASSERT_TRUE(sameValues(runOnDevice(*device, {.def = ops::kWhere, .inputs = all})[0],
                               ops::evaluate(ops::kWhere, {}, all)[0]))
            << name(dtype) << x.str() << y.str() << shape.str();
      }
    }
  }
}

TEST(Elementwise, BroadcastsAnyType) {
  const auto device = makeCpuDevice({.threads = 2});
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const auto& [x, y] : patterns()) {
      const Shape shape = broadcast(x, y);
      const std::vector<HostTensor> in = {random(1, dtype, y)};
      const ir::Attrs attrs = {{"shape", shape.dims()}};
      ASSERT_TRUE(runOnDevice(*device, {.def = ops::kBroadcastTo, .attrs = attrs, .inputs = in})[0]
                      .sameBits(ops::evaluate(ops::kBroadcastTo, attrs, in)[0]))
          << name(dtype) << y.str() << shape.str();
    }
  }
}

TEST(Elementwise, CastsBetweenAllTypes) {
  const auto device = makeCpuDevice();
  for (int from = 0; from < kNumDTypes; ++from) {
    HostTensor in(static_cast<DType>(from), Shape{6});
    const std::vector<double> values = {0.0, 1.0, 2.5, -1.75, 300.0, -70000.0};
    for (std::int64_t i = 0; i < 6; ++i) {
      in.set(i, values[static_cast<std::size_t>(i)]);
    }
    for (int to = 0; to < kNumDTypes; ++to) {
      const ir::Attrs attrs = {{"dtype", name(static_cast<DType>(to))}};
      ASSERT_TRUE(
          runOnDevice(*device, {.def = ops::kCast, .attrs = attrs, .inputs = {in}})[0].sameBits(
              cast(in, static_cast<DType>(to))))
          << name(in.dtype()) << " to " << name(static_cast<DType>(to));
    }
  }
}

TEST(Elementwise, WorksInPlaceOfEitherOperand) {
  const auto device = makeCpuDevice({.threads = 2});
  for (const DType dtype : {DType::F32, DType::BF16, DType::F64, DType::I16}) {
    const Shape shape{3, 130, 5, 29};
    const std::vector<HostTensor> in = {random(1, dtype, shape), random(2, dtype, shape)};
    const HostTensor expected = ops::evaluate(ops::kSub, {}, in)[0];
    for (const std::size_t operand : {0U, 1U}) {
      for (const Layout& layout : {Layout::plain(), Layout::channelsLast()}) {
        ASSERT_TRUE(
            runOnDevice(*device,
                        {.def = ops::kSub, .inputs = in, .follow = layout, .inPlace = operand})[0]
                .sameBits(expected));
      }
    }
  }
}

// A stand-in for the op `fused` with its schema: the kernel reads the name and the body only.
constexpr std::array<ir::AttrSpec, 1> kFusedAttrs = {
    {{.name = "body", .kind = ir::AttrKind::Subgraph, .required = true}}};

std::vector<TensorType> inferFused(const ir::OpView& op) {
  const ir::Graph& body = op.attrs.subgraph("body");
  std::vector<TensorType> types;
  for (const ir::Output& output : body.outputs()) {
    types.push_back(body.type(output.value));
  }
  return types;
}

constexpr ir::OpDef kTestFused{.name = "fused",
                               .maxInputs = ir::kVariadic,
                               .outputs = ir::kVariadic,
                               .attrs = kFusedAttrs,
                               .infer = inferFused};

/// A random body over four inputs: two whole, one along the last axis, one scalar.
struct RandomBody {
  ir::Graph graph{"body"};
  std::vector<TensorType> inputs;

  RandomBody(std::uint64_t seed, DType dtype, const Shape& shape) {
    std::mt19937_64 random(seed);
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    ir::GraphBuilder b(graph);
    const Shape last = shape.rank() == 4 ? Shape{shape[1], 1, 1} : Shape{shape[shape.rank() - 1]};
    inputs = {{dtype, shape}, {dtype, shape}, {dtype, last}, {dtype, Shape{}}};
    std::vector<ir::Value> values;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      values.push_back(b.input(fmt::format("in{}", i), inputs[i]));
    }
    values.push_back(b.scalar(dtype, 0.7));
    std::vector<ir::Value> whole;
    for (int step = 0; step < 12; ++step) {
      const ir::Value x = values[pick(values.size())];
      const ir::Value y = values[pick(values.size())];
      values.push_back(next(b, pick(9), x, y));
      if (b.shape(values.back()) == shape) {
        whole.push_back(values.back());
      }
    }
    whole.push_back(ops::add(b, values.back(), values[0]));
    graph.addOutput("out0", whole.back());
    graph.addOutput("out1", whole[pick(whole.size())]);
  }

  static ir::Value next(ir::GraphBuilder& b, std::size_t kind, ir::Value x, ir::Value y) {
    switch (kind) {
      case 0:
        return ops::add(b, x, y);
      case 1:
        return ops::mul(b, x, y);
      case 2:
        return ops::sub(b, x, y);
      case 3:
        return ops::tanh(b, x);
      case 4:
        return ops::sigmoid(b, y);
      case 5:
        return ops::where(b, ops::greater(b, x, y), x, ops::neg(b, y));
      case 6:
        return ops::cast(b, ops::exp(b, ops::cast(b, ops::tanh(b, x), DType::F32)), b.dtype(x));
      case 7:
        return ops::relu(b, x);
      default:
        return ops::maximum(b, x, y);
    }
  }
};

TEST(Elementwise, FusedBodiesGiveTheBitsOfTheirOpsOneByOne) {
  const auto one = makeCpuDevice();
  const auto three = makeCpuDevice({.threads = 3});
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const std::vector<Shape> shapes = {{40, 37}, {9, 500}, {2, 5, 9, 30}, {3, 17, 3, 3}, {20000}};
    const Shape& shape = shapes[seed % shapes.size()];
    const DType dtype = std::array{DType::F32, DType::BF16, DType::F16, DType::F64}[seed % 4];
    const RandomBody body(seed, dtype, shape);
    std::vector<HostTensor> in;
    for (std::size_t i = 0; i < body.inputs.size(); ++i) {
      in.push_back(randomTensor(seed * 10 + i, body.inputs[i], -2, 2));
    }
    const auto graph = std::make_shared<const ir::Graph>(body.graph);
    const std::vector<HostTensor> expected = runOpByOp(*one, body.graph, in);
    for (device::Device* device : {one.get(), three.get()}) {
      for (const Layout& layout : {Layout::plain(), Layout::channelsLast()}) {
        for (const std::optional<std::size_t> place : {std::optional<std::size_t>(),
                                                       std::optional<std::size_t>(0),
                                                       std::optional<std::size_t>(1)}) {
          const std::vector<HostTensor> actual = runOnDevice(*device,
                                                             {.def = kTestFused,
                                                              .attrs = {{"body", graph}},
                                                              .inputs = in,
                                                              .follow = layout,
                                                              .inPlace = place});
          ASSERT_TRUE(sameValues(actual[0], expected[0])) << "seed " << seed;
          ASSERT_TRUE(sameValues(actual[1], expected[1])) << "seed " << seed;
        }
      }
    }
  }
}

TEST(Elementwise, ThreadCountsGiveTheSameBits) {
  const std::vector<HostTensor> in = {random(1, DType::F32, {123457})};
  for (const ir::OpDef* def : {&ops::kExp, &ops::kGelu, &ops::kTanh, &ops::kLog1p}) {
    const HostTensor one = runOnDevice(*makeCpuDevice(), {.def = *def, .inputs = in})[0];
    for (const int threads : {2, 3}) {
      const auto device = makeCpuDevice({.threads = threads});
      EXPECT_TRUE(runOnDevice(*device, {.def = *def, .inputs = in})[0].sameBits(one));
    }
  }
}

TEST(Elementwise, UniformPartsRunOncePerTile) {
  ir::Graph body("body");
  ir::GraphBuilder b(body);
  const ir::Value x = b.input("in0", {DType::F32, {100, 200}});
  const ir::Value s = b.input("in1", {DType::F32, Shape{}});
  const ir::Value column = b.input("in2", {DType::F32, {100, 1}});
  const ir::Value y = ops::mul(b, x, ops::pow(b, s, s));
  body.addOutput("out0", ops::add(b, y, ops::exp(b, column)));
  const ir::Attrs attrs = {{"body", std::make_shared<const ir::Graph>(body)}};
  const std::vector<TensorType> in = {b.type(x), b.type(s), b.type(column)};
  const std::vector<TensorType> out = {b.type(x)};
  const ir::OpView op{kTestFused, attrs, in, out};
  const std::optional<BlockProgram> program = compileBlocks(op, device::plainChoice(op, ""));
  ASSERT_TRUE(program.has_value());
  EXPECT_EQ(program->tile.size(), 1U);   // pow
  EXPECT_EQ(program->row.size(), 1U);    // exp
  EXPECT_EQ(program->block.size(), 2U);  // mul, add into the output
  EXPECT_EQ(program->numRegisters, 1U);
}

/// What AdamW does to a weight: operands w, m, v, g, then five numbers; results m, v, w.
struct AdamBody {
  ir::Graph graph{"body"};
  std::vector<TensorType> inputs;

  explicit AdamBody(const Shape& shape) {
    ir::GraphBuilder b(graph);
    std::vector<ir::Value> in;
    for (std::size_t i = 0; i < 9; ++i) {
      inputs.push_back({DType::F32, i < 4 ? shape : Shape{}});
      in.push_back(b.input(fmt::format("in{}", i), inputs.back()));
    }
    const ir::Value g = in[3];
    const ir::Value m = ops::add(b, ops::mul(b, in[1], in[4]), ops::mul(b, g, in[5]));
    const ir::Value v =
        ops::add(b, ops::mul(b, in[2], in[4]), ops::mul(b, ops::square(b, g), in[5]));
    const ir::Value root = ops::add(b, ops::sqrt(b, ops::mul(b, v, in[6])), in[7]);
    const ir::Value x = ops::div(b, ops::mul(b, m, in[6]), root);
    const ir::Value step = ops::add(b, x, ops::mul(b, in[0], in[8]));
    graph.addOutput("out0", m);
    graph.addOutput("out1", v);
    graph.addOutput("out2", ops::sub(b, in[0], ops::mul(b, step, in[8])));
  }
};

TEST(Elementwise, MultiplicationsByOneNumberAreDoneByTheirReaders) {
  const AdamBody body(Shape{4000});
  const ir::Attrs attrs = {{"body", std::make_shared<const ir::Graph>(body.graph)}};
  const std::vector<TensorType> out(3, body.inputs[0]);
  const ir::OpView op{kTestFused, attrs, body.inputs, out};
  const std::optional<BlockProgram> program = compileBlocks(op, device::plainChoice(op, ""));
  ASSERT_TRUE(program.has_value());
  // m; g², v; the root, + eps, the quotient; the step, w; copies of m and v to their places.
  EXPECT_EQ(program->block.size(), 10U);
  EXPECT_EQ(program->streams, (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_TRUE(program->lateReads.empty());
  // Without the copies, where w, v and g are not in the place of m, nor w in that of v.
  const std::optional<BlockProgram> direct =
      compileBlocks(op, device::plainChoice(op, ""), Writes::AtOnce);
  ASSERT_TRUE(direct.has_value());
  EXPECT_EQ(direct->block.size(), 8U);
  for (const LateRead& late : direct->lateReads) {
    EXPECT_NE(late.input, late.output + 1) << "an operand's own place";
  }
}

TEST(Elementwise, ConstantsAreInNobodysPlace) {
  ir::Graph graph("body");
  ir::GraphBuilder b(graph);
  const TensorType type{DType::F32, Shape{300}};
  const ir::Value sum = ops::add(b, b.input("in0", type), b.input("in1", type));
  graph.addOutput("out0", sum);
  graph.addOutput("out1", ops::mul(b, sum, b.constant(randomTensor(1, type, 0.0, 1.0))));
  const ir::Attrs attrs = {{"body", std::make_shared<const ir::Graph>(graph)}};
  const std::vector<TensorType> types(2, type);
  const ir::OpView op{kTestFused, attrs, types, types};
  const std::optional<BlockProgram> direct =
      compileBlocks(op, device::plainChoice(op, ""), Writes::AtOnce);
  ASSERT_TRUE(direct.has_value());
  EXPECT_EQ(direct->constants.size(), 1U);
  for (const LateRead& late : direct->lateReads) {
    EXPECT_LT(late.input, direct->numInputs);
  }
}

TEST(Elementwise, AnUpdateOfManyBlocksGivesTheBitsOfItsOps) {
  const AdamBody body(Shape{50001});
  std::vector<HostTensor> in;
  for (std::size_t i = 0; i < body.inputs.size(); ++i) {
    in.push_back(randomTensor(i + 1, body.inputs[i], 0.1, 0.9));
  }
  const auto graph = std::make_shared<const ir::Graph>(body.graph);
  const auto reference = makeCpuDevice();
  const std::vector<HostTensor> expected = runOpByOp(*reference, body.graph, in);
  for (const int threads : {1, 3}) {
    const auto device = makeCpuDevice({.threads = threads});
    for (const std::optional<std::size_t> place : {std::optional<std::size_t>(),
                                                   std::optional<std::size_t>(0),
                                                   std::optional<std::size_t>(1),
                                                   std::optional<std::size_t>(3)}) {
      const std::vector<HostTensor> actual = runOnDevice(
          *device, {.def = kTestFused, .attrs = {{"body", graph}}, .inputs = in, .inPlace = place});
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(actual[i].sameBits(expected[i]));
      }
    }
  }
}

TEST(Elementwise, BodiesWithOtherOpsAreLeftToOthers) {
  ir::Graph body("body");
  ir::GraphBuilder b(body);
  const ir::Value x = b.input("in0", {DType::F32, {4, 4}});
  body.addOutput("out0", ops::relu(b, ops::matmul(b, x, x)));
  const ir::Attrs attrs = {{"body", std::make_shared<const ir::Graph>(body)}};
  const std::vector<TensorType> types = {b.type(x)};
  const ir::OpView op{kTestFused, attrs, types, types};
  EXPECT_FALSE(compileBlocks(op, device::plainChoice(op, "")).has_value());
  EXPECT_THROW(cpuKernelTable().choose(op), Unsupported);
}

}  // namespace
}  // namespace sluice::devices::cpu
