#include "sluice/nn/helpers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/nn/modules.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/autodiff.h"
#include "tests/support/layer_run.h"
#include "tests/support/message_of.h"

namespace sluice::nn {
namespace {

using sluice::testing::messageOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Mode = MatMulSerializationMode;

constexpr Mode kModes[] = {
    Mode::InputChannels, Mode::ReducingDim, Mode::OutputChannels, Mode::Disabled};

/// A function of two tensors with the gradients of its sum, weighted so that none are alike.
struct Differentiated {
  ir::Graph graph;
  ops::TensorMap values;  ///< y, da, db
};

template <class F>
Differentiated differentiated(const HostTensor& a, const HostTensor& b, F f) {
  Differentiated result;
  ir::Graph& graph = result.graph;
  Tracer tracer(graph, TraceMode::Training);
  const Tensor x = tracer.input("a", a.type());
  const Tensor w = tracer.input("b", b.type());
  const Tensor y = f(x, w);
  const Tensor weighted = y * constant(waves(y.type(), 0.3));
  const Tensor loss = sum(weighted);
  const std::vector<ir::Value> wrt = {x.value(), w.value()};
  const std::vector<ir::Value> grads = transforms::differentiate(graph, loss.value(), wrt);
  graph.addOutput("y", y.value());
  graph.addOutput("da", grads[0]);
  graph.addOutput("db", grads[1]);
  ops::TensorMap state;
  result.values = ops::evaluate(graph, {{"a", a}, {"b", b}}, state);
  return result;
}

double largestDifference(const HostTensor& x, const HostTensor& y) {
  EXPECT_EQ(x.type(), y.type());
  double largest = 0;
  for (std::int64_t i = 0; i < x.shape().elements(); ++i) {
    largest = std::max(largest, std::abs(x.at(i) - y.at(i)));
  }
  return largest;
}

/// Multiplications and additions of the matrix products of a graph, one after the other.
std::vector<std::int64_t> productSizes(const ir::Graph& graph) {
  std::vector<std::int64_t> sizes;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.is(ops::kMatMul)) {
      const std::int64_t results = op.outputs[0].shape.elements();
      const std::int64_t left = graph.type(op.inputs[0]).shape.elements();
      const std::int64_t right = graph.type(op.inputs[1]).shape.elements();
      // Of [m, n] x [n, p]: mn * np * mp is the square of m n p.
      sizes.push_back(static_cast<std::int64_t>(
          std::llround(std::sqrt(static_cast<double>(results * left * right)))));
    }
  }
  return sizes;
}

TEST(SerializedMatMul, EqualsAMatmulInBothPasses) {
  for (const bool batched : {false, true}) {
    const Shape left = batched ? Shape{2, 4, 6} : Shape{4, 6};
    const Shape right = batched ? Shape{2, 6, 8} : Shape{6, 8};
    const HostTensor a = waves({DType::F32, left}, 0.1);
    const HostTensor b = waves({DType::F32, right}, 0.9);
    const Differentiated whole = differentiated(a, b, matmul);
    for (const Mode mode : kModes) {
      const Differentiated parts = differentiated(
          a, b, [&](const Tensor& x, const Tensor& y) { return serializedMatMul(x, y, mode, 2); });
      for (const char* name : {"y", "da", "db"}) {
        EXPECT_LE(largestDifference(whole.values.at(name), parts.values.at(name)), 1e-5)
            << name << " of mode " << static_cast<int>(mode);
      }
    }
  }
}

TEST(SerializedMatMul, CutsTheProductsOfItsGradientsToo) {
  const HostTensor a = waves({DType::F32, Shape{4, 6}}, 0.1);
  const HostTensor b = waves({DType::F32, Shape{6, 8}}, 0.9);
  for (const Mode mode : {Mode::InputChannels, Mode::ReducingDim, Mode::OutputChannels}) {
    const Differentiated parts = differentiated(
        a, b, [&](const Tensor& x, const Tensor& y) { return serializedMatMul(x, y, mode, 2); });
    const std::vector<std::int64_t> sizes = productSizes(parts.graph);
    EXPECT_THAT(sizes, SizeIs(6)) << "two products forward and four backward";
    EXPECT_THAT(sizes, Each(4 * 6 * 8 / 2));
  }
}

TEST(SerializedMatMul, AddsInFloat32WherePrecisionIsKept) {
  // 2048 + 1 is 2048 in float16, and 2048 + 1 + 1 is 2050 if it is rounded once.
  const HostTensor ones = HostTensor::full({DType::F16, Shape{3, 1}}, 1);
  HostTensor row(DType::F16, Shape{1, 3});
  row.set(0, 2048);
  row.set(1, 1);
  row.set(2, 1);
  const auto product = [](Mode mode, bool keep) {
    return [=](const Tensor& x, const Tensor& y) { return serializedMatMul(x, y, mode, 3, keep); };
  };
  ops::TensorMap none;
  const auto sumOf = [&](bool keep) {
    return evaluated(
        {row, ones},
        [&](const std::vector<Tensor>& in) {
          return product(Mode::ReducingDim, keep)(in[0], in[1]);
        },
        none);
  };
  EXPECT_EQ(sumOf(false).at(0), 2048);
  EXPECT_EQ(sumOf(true).at(0), 2050);
  EXPECT_EQ(sumOf(true).dtype(), DType::F16);
}

TEST(SerializedMatMul, AddsGradientsInFloat32WherePrecisionIsKept) {
  // The gradient by the operand that all products share is the sum of 2048, 1 and 1, the last use
  // first.
  const HostTensor one = HostTensor::full({DType::F16, Shape{1, 1}}, 1);
  HostTensor column(DType::F16, Shape{3, 1});
  column.set(0, 1);
  column.set(1, 1);
  column.set(2, 2048);
  const auto gradient = [&](Mode mode, bool keep) {
    ir::Graph graph;
    Tracer tracer(graph, TraceMode::Training);
    const Tensor shared = tracer.input("shared", one.type());
    const Tensor cut = constant(mode == Mode::InputChannels ? column : column.reshaped({1, 3}));
    const Tensor y = mode == Mode::InputChannels ? serializedMatMul(cut, shared, mode, 3, keep)
                                                 : serializedMatMul(shared, cut, mode, 3, keep);
    const std::vector<ir::Value> wrt = {shared.value()};
    graph.addOutput("d", transforms::differentiate(graph, sum(y).value(), wrt)[0]);
    ops::TensorMap state;
    return ops::evaluate(graph, {{"shared", one}}, state).at("d").at(0);
  };
  EXPECT_EQ(gradient(Mode::InputChannels, true), 2050);
  EXPECT_EQ(gradient(Mode::OutputChannels, true), 2050);
  EXPECT_EQ(gradient(Mode::InputChannels, false), 2048);
}

TEST(SerializedMatMul, RefusesFactorsAndRanksThatDoNotFit) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  const Tensor a = tracer.input("a", {DType::F32, Shape{4, 4}});
  const Tensor b = tracer.input("b", {DType::F32, Shape{4, 4}});
  const Tensor row = tracer.input("row", {DType::F32, Shape{4}});
  const Tensor batch = tracer.input("batch", {DType::F32, Shape{2, 4, 4}});
  for (const Mode mode : {Mode::InputChannels, Mode::ReducingDim, Mode::OutputChannels}) {
    for (const std::int64_t factor : {3, 0, -2, 8}) {
      EXPECT_THAT(messageOf([&] { serializedMatMul(a, b, mode, factor); }), HasSubstr("divide"));
    }
  }
  EXPECT_THAT(messageOf([&] { serializedMatMul(row, row, Mode::ReducingDim, 2); }),
              HasSubstr("rank 2"));
  EXPECT_THAT(messageOf([&] { serializedMatMul(a, batch, Mode::Disabled); }), HasSubstr("rank 2"));
}

TEST(DynamicSlice, TakesEveryStepthElementFromTheOffset) {
  ops::TensorMap none;
  const HostTensor x = HostTensor::of<double>(Shape{2, 6}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const HostTensor start = HostTensor::scalar<std::int64_t>(1);
  const auto sliced = [&](std::int64_t size, std::int64_t step) {
    return evaluated(
        {x, start},
        [&](const std::vector<Tensor>& in) { return dynamicSlice(in[0], -1, in[1], size, step); },
        none);
  };
  EXPECT_THAT(sliced(4, 2).toDoubles(), ElementsAre(1, 3, 7, 9));
  EXPECT_THAT(sliced(2, 1).toDoubles(), ElementsAre(1, 2, 7, 8));
  EXPECT_THAT(messageOf([&] { sliced(4, 3); }), HasSubstr("step"));
  EXPECT_THAT(messageOf([&] { sliced(4, 0); }), HasSubstr("step"));
  EXPECT_THAT(messageOf([&] { sliced(6, 1); }), HasSubstr("offset 1"));
}

TEST(DynamicUpdate, ReplacesABlockAtTheOffset) {
  ops::TensorMap none;
  const HostTensor y = evaluated(
      {HostTensor::of<double>(Shape{4}, {0, 1, 2, 3}),
       HostTensor::of<double>(Shape{2}, {8, 9}),
       HostTensor::scalar<std::int64_t>(2)},
      [](const std::vector<Tensor>& in) { return dynamicUpdate(in[0], in[1], 0, in[2]); },
      none);
  EXPECT_THAT(y.toDoubles(), ElementsAre(0, 1, 8, 9));
}

TEST(Checkpoints, OfSeveralTensorsAreOneEach) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Training);
  const Tensor x = tracer.input("x", {DType::F32, Shape{2}});
  const std::vector<Tensor> kept = recomputationCheckpoint(std::vector<Tensor>{relu(x), tanh(x)});
  ASSERT_THAT(kept, SizeIs(2));
  for (const Tensor& tensor : kept) {
    EXPECT_TRUE(graph.op(tensor.value().op).is(ops::kRecomputationCheckpoint));
  }
}

TEST(SetAvailableMemory, IsTheTensorItselfAndRefusesSharesOutOfRange) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  const Tensor x = tracer.input("x", {DType::F32, Shape{2, 2}});
  EXPECT_EQ(setAvailableMemory(x, 0).value(), x.value());
  EXPECT_EQ(setAvailableMemory(x).value(), x.value());
  ASSERT_THAT(tracer.memoryHints(), SizeIs(2));
  EXPECT_EQ(tracer.memoryHints()[1].proportion, 0.6);
  for (const double share : {-0.1, 1.1, std::nan("")}) {
    EXPECT_THAT(messageOf([&] { setAvailableMemory(x, share); }), HasSubstr("between 0 and 1"));
  }
}

/// Two layers on one image.
struct Pair : Module {
  Conv2d a{*this, "a", 1, 2, 3};
  Conv2d b{*this, "b", 1, 3, 2};
};

TEST(MultiConv, GivesTheBitsOfSeparateConvolutions) {
  Pair net;
  const HostTensor image = waves({DType::F32, Shape{2, 1, 5, 5}}, 0.2);
  const auto both = [&](const std::vector<Tensor>& in) {
    return std::vector{net.a(in[0]), net.b(in[0])};
  };
  for (const std::size_t i : {0U, 1U}) {
    const HostTensor alone = evaluated(
        {image}, [&](const std::vector<Tensor>& in) { return both(in)[i]; }, net);
    const HostTensor grouped = evaluated(
        {image},
        [&](const std::vector<Tensor>& in) {
          return MultiConv()
              .planType(MultiConvPlanType::Serial)
              .availableMemoryProportions({0.5, 0.25})
              .partialsTypes(DType::F32)
              .enableConvDithering({true, false})
              .perConvReservedTiles(50)
              .cycleBackOff(0.2)([&] { return both(in); })[i];
        },
        net);
    EXPECT_TRUE(alone.sameBits(grouped));
  }
}

TEST(MultiConv, RefusesGroupsThatCannotBePlannedTogether) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  const Tensor x = tracer.input("x", {DType::F32, Shape{1, 1, 4, 4}});
  const Tensor w = tracer.input("w", {DType::F32, Shape{1, 1, 2, 2}});
  const auto one = [&] { return conv2d(x, w); };
  const auto two = [&] { return std::pair(conv2d(x, w), conv2d(relu(x), w)); };
  EXPECT_THAT(messageOf([&] { MultiConv()([&] { return relu(x); }); }),
              HasSubstr("no convolution"));
  EXPECT_THAT(messageOf([&] { MultiConv()([&] { MultiConv()(one); }); }), HasSubstr("inside"));
  EXPECT_THAT(messageOf([&] { MultiConv()([&] { return conv2d(relu(one()), w); }); }),
              HasSubstr("depends"));
  EXPECT_THAT(messageOf([&] {
                MultiConv().availableMemoryProportions({0.1, 0.2, 0.3})(two);
              }),
              HasSubstr("availableMemoryProportions has 3"));
  EXPECT_THAT(messageOf([&] {
                MultiConv().partialsTypes({DType::F16, DType::F32})(one);
              }),
              HasSubstr("partialsTypes has 2"));
  EXPECT_THAT(messageOf([&] {
                MultiConv().enableConvDithering({true, true})(one);
              }),
              HasSubstr("enableConvDithering has 2"));
  // A group that failed is closed, and one value is for all.
  tracer.memoryHints().clear();
  MultiConv().availableMemoryProportions(0.5)(two);
  EXPECT_THAT(tracer.memoryHints(), SizeIs(2));
}

TEST(MultiConv, ChecksItsOptionsWhenTheyAreSet) {
  EXPECT_THAT(messageOf([] { MultiConv().availableMemoryProportions(1.5); }), HasSubstr("between"));
  EXPECT_THAT(messageOf([] { MultiConv().partialsTypes(DType::I32); }), HasSubstr("f32 or f16"));
  EXPECT_THAT(messageOf([] { MultiConv().perConvReservedTiles(-1); }), HasSubstr("negative"));
  EXPECT_THAT(messageOf([] { MultiConv().cycleBackOff(2); }), HasSubstr("cycleBackOff"));
  EXPECT_EQ(MultiConv().planType(), MultiConvPlanType::Parallel);
}

/// The graph of two convolutions that `group` makes together, and the number of its hints about
/// memory.
template <class Group>
std::pair<ir::Graph, std::size_t> groupedGraph(const Group& group) {
  std::pair<ir::Graph, std::size_t> made;
  Tracer tracer(made.first, TraceMode::Inference);
  const Tensor x = tracer.input("x", {DType::F16, Shape{1, 1, 4, 4}});
  const Tensor w = tracer.input("w", {DType::F16, Shape{1, 1, 2, 2}});
  group([&] { return std::pair(conv2d(x, w), conv2d(relu(x), w)); });
  made.second = tracer.memoryHints().size();
  return made;
}

TEST(MultiConv, HintsAboutTilesHaveNoEffect) {
  const ir::Graph alone = groupedGraph([](const auto& body) { body(); }).first;
  const MultiConv groups[] = {MultiConv().partialsTypes(DType::F16),
                              MultiConv().enableConvDithering({true, false}),
                              MultiConv().planType(MultiConvPlanType::Serial),
                              MultiConv().perConvReservedTiles(50),
                              MultiConv().cycleBackOff(0.5)};
  for (const MultiConv& group : groups) {
    const auto [graph, hints] = groupedGraph(group);
    EXPECT_TRUE(ir::structurallyEqual(graph, alone));
    EXPECT_EQ(hints, 0U);
  }
  // The option that is not about tiles does not change the graph either, but compiling reads it.
  const auto [graph, hints] = groupedGraph(MultiConv().availableMemoryProportions(0.5));
  EXPECT_TRUE(ir::structurallyEqual(graph, alone));
  EXPECT_EQ(hints, 2U);
}

TEST(Exchanges, OfOneReplicaPassValuesAndGradientsOn) {
  const HostTensor a = waves({DType::F64, Shape{2, 3}}, 0.7);
  const HostTensor b = waves({DType::F64, Shape{2, 3}}, 0.2);
  const auto plain = differentiated(a, b, [](const Tensor& x, const Tensor& y) { return x * y; });
  const auto summed =
      differentiated(a, b, [](const Tensor& x, const Tensor& y) { return allReduce(x) * y; });
  const auto gathered = differentiated(a, b, [](const Tensor& x, const Tensor& y) {
    return reshape(allGather(x, 1), {2, 3}) * y;
  });
  const auto scattered = differentiated(a, b, [](const Tensor& x, const Tensor& y) {
    return reshape(reduceScatter(x, 1), {2, 3}) * y;
  });
  for (const auto* other : {&summed, &gathered, &scattered}) {
    for (const char* name : {"y", "da", "db"}) {
      EXPECT_EQ(other->values.at(name).hash(), plain.values.at(name).hash()) << name;
    }
  }
}

TEST(Exchanges, NeedANumberOfReplicas) {
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Training);
  const Tensor x = tracer.input("x", {DType::F32, Shape{2, 3}});
  EXPECT_EQ(allGather(x, 4).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(reduceScatter(x, 4).shape(), Shape{2});
  EXPECT_THAT(messageOf([&] { allGather(x, 0); }), HasSubstr("at least 1 replica, got 0"));
  EXPECT_THAT(messageOf([&] { reduceScatter(x, 0); }), HasSubstr("at least 1 replica, got 0"));
}

}  // namespace
}  // namespace sluice::nn
