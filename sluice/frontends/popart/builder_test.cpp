#include "sluice/frontends/popart/builder.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compile_plan.h"
#include "sluice/api/session.h"
#include "sluice/base/error.h"
#include "sluice/compile/training_graph.h"
#include "sluice/ir/verify.h"
#include "sluice/ops/interpreter.h"
#include "sluice/optim/optimizers.h"
#include "sluice/transforms/decompose.h"
#include "tests/support/message_of.h"
#include "tests/support/tensor_types.h"

namespace sluice {
namespace {

using testing::f32;

using sluice::testing::messageOf;
using ::testing::HasSubstr;

/// What a tensor of the graph is for one input "x", by the reference kernels.
HostTensor evaluated(Builder& b, const TensorId& id, const HostTensor& x) {
  b.addOutputTensor(id);
  ir::verify(b.graph());
  ops::TensorMap variables;
  for (const ir::Variable& variable : b.graph().variables()) {
    variables[variable.name] = ir::initialValue(variable, 0);
  }
  return ops::evaluate(b.graph(), {{"x", x}}, variables).at(id);
}

const HostTensor kInput = HostTensor::of<float>(Shape{2, 3}, {-1, 4, 9, 1, 0.25F, 16});

/// The values of one op on kInput.
template <class F>
std::vector<double> valuesOf(F f) {
  Builder b;
  const TensorId x = b.addInputTensor(kInput.type(), "x");
  return evaluated(b, f(b, x), kInput).toDoubles();
}

using Values = std::vector<double>;

TEST(Builder, HasOnnxOpsOfOneTensor) {
  const auto run = [](TensorId (AiOnnx::*op)(const TensorId&)) {
    return valuesOf([&](Builder& b, const TensorId& x) {
      AiOnnx onnx = b.aiOnnx();
      return (onnx.*op)(x);
    });
  };
  EXPECT_EQ(run(&AiOnnx::abs), (Values{1, 4, 9, 1, 0.25, 16}));
  EXPECT_EQ(run(&AiOnnx::neg), (Values{1, -4, -9, -1, -0.25, -16}));
  EXPECT_EQ(run(&AiOnnx::relu), (Values{0, 4, 9, 1, 0.25, 16}));
  EXPECT_EQ(run(&AiOnnx::identity), kInput.toDoubles());
  EXPECT_EQ(run(&AiOnnx::sqrt)[5], 4);
  EXPECT_NEAR(run(&AiOnnx::exp)[3], std::exp(1.0), 1e-6);
  EXPECT_EQ(run(&AiOnnx::log)[3], 0);
  EXPECT_NEAR(run(&AiOnnx::tanh)[3], std::tanh(1.0), 1e-6);
  EXPECT_NEAR(run(&AiOnnx::sigmoid)[3], 1 / (1 + std::exp(-1.0)), 1e-6);
}

TEST(Builder, HasOnnxOpsOfTwoTensors) {
  const auto run = [](TensorId (AiOnnx::*op)(const TensorId&, const TensorId&)) {
    return valuesOf([&](Builder& b, const TensorId& x) {
      AiOnnx onnx = b.aiOnnx();
      return (onnx.*op)(x, b.addInitializedInputTensor(HostTensor::of<float>(Shape{3}, {2, 2, 1})));
    });
  };
  EXPECT_EQ(run(&AiOnnx::add), (Values{1, 6, 10, 3, 2.25, 17}));
  EXPECT_EQ(run(&AiOnnx::sub), (Values{-3, 2, 8, -1, -1.75, 15}));
  EXPECT_EQ(run(&AiOnnx::mul), (Values{-2, 8, 9, 2, 0.5, 16}));
  EXPECT_EQ(run(&AiOnnx::div), (Values{-0.5, 2, 9, 0.5, 0.125, 16}));
  EXPECT_EQ(run(&AiOnnx::pow), (Values{1, 16, 9, 1, 0.0625, 16}));
  EXPECT_EQ(run(&AiOnnx::matmul), (Values{-2 + 8 + 9, 2 + 0.5 + 16}));
}

TEST(Builder, HasOnnxShapeOpsAndReductions) {
  const auto run = [](auto f) {
    return valuesOf([&](Builder& b, const TensorId& x) { return f(b.aiOnnx(), x); });
  };
  const auto shapeOf = [](auto f) {
    Builder b;
    const TensorId x = b.addInputTensor(f32(Shape{2, 3, 4}), "x");
    return b.getTensorShape(f(b.aiOnnx(), x));
  };
  EXPECT_EQ(run([](AiOnnx o, auto x) { return o.reducesum(x, {1}); }), (Values{12, 17.25}));
  EXPECT_EQ(run([](AiOnnx o, auto x) { return o.reducemean(x, {1}); }), (Values{4, 5.75}));
  EXPECT_EQ(run([](AiOnnx o, auto x) { return o.reducemax(x, {0}, false); }), (Values{1, 4, 16}));
  EXPECT_EQ(run([](AiOnnx o, auto x) { return o.transpose(x); }), (Values{-1, 1, 4, 0.25, 9, 16}));
  EXPECT_EQ(run([](AiOnnx o, auto x) { return o.concat({x, x}, 1); })[3], -1);
  EXPECT_EQ(run([](AiOnnx o, auto x) {
              return o.split(x, {1, 2}, 1)[1];
            }),
            (Values{4, 9, 0.25, 16}));
  EXPECT_EQ(run([](AiOnnx o, auto x) {
              return o.slice(x, {{-1, 0, 3, 2}});
            }),
            (Values{-1, 9, 1, 16}));
  EXPECT_EQ(run([](AiOnnx o, auto x) { return o.clip(x, 0, 5); }), (Values{0, 4, 5, 1, 0.25, 5}));
  EXPECT_EQ(run([](AiOnnx o, auto x) { return o.cast(x, DType::I32); }),
            (Values{-1, 4, 9, 1, 0, 16}));
  EXPECT_EQ(shapeOf([](AiOnnx o, auto x) { return o.reducesum(x, {1}); }), (Shape{2, 1, 4}));
  EXPECT_EQ(shapeOf([](AiOnnx o, auto x) { return o.reshape(x, {0, -1}); }), (Shape{2, 12}));
  EXPECT_EQ(shapeOf([](AiOnnx o, auto x) { return o.flatten(x, 2); }), (Shape{6, 4}));
  EXPECT_EQ(shapeOf([](AiOnnx o, auto x) { return o.flatten(x, 0); }), (Shape{1, 24}));
  EXPECT_EQ(shapeOf([](AiOnnx o, auto x) { return o.unsqueeze(x, {0}); }), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(shapeOf([](AiOnnx o, auto x) { return o.squeeze(o.unsqueeze(x, {0})); }),
            (Shape{2, 3, 4}));
}

TEST(Builder, HasSoftmaxWhereGatherAndGemm) {
  const Values softmax =
      valuesOf([](Builder& b, const TensorId& x) { return b.aiOnnx().softmax(x); });
  const Values logs =
      valuesOf([](Builder& b, const TensorId& x) { return b.aiOnnx().logsoftmax(x); });
  EXPECT_NEAR(softmax[0] + softmax[1] + softmax[2], 1.0, 1e-6);
  EXPECT_NEAR(std::log(softmax[2]), logs[2], 1e-5);
  EXPECT_EQ(valuesOf([](Builder& b, const TensorId& x) {
              const TensorId rows =
                  b.addInitializedInputTensor(HostTensor::of<std::int64_t>(Shape{1}, {1}));
              return b.aiOnnx().gather(x, rows);
            }),
            (Values{1, 0.25, 16}));
  EXPECT_EQ(valuesOf([](Builder& b, const TensorId& x) {
              const TensorId mask =
                  b.addInitializedInputTensor(HostTensor::of<bool>(Shape{3}, {true, false, true}));
              return b.aiOnnx().where(mask, x, b.aiOnnx().neg(x));
            }),
            (Values{-1, -4, 9, 1, -0.25, 16}));
  EXPECT_EQ(valuesOf([](Builder& b, const TensorId& x) {
              const TensorId w =
                  b.addInitializedInputTensor(HostTensor::of<float>(Shape{1, 3}, {1, 1, 1}));
              const TensorId c = b.addInitializedInputTensor(HostTensor::of<float>(Shape{1}, {10}));
              return b.aiOnnx().gemm(x, w, c, {.alpha = 2, .beta = 0.5, .transB = true});
            }),
            (Values{29, 39.5}));
}

TEST(Builder, HasConvolutionPoolingAndNormalization) {
  Builder b;
  const TensorId x = b.addInputTensor(f32(Shape{1, 1, 4, 4}), "x");
  const auto constant = [&](Shape shape, double value) {
    return b.addInitializedInputTensor(HostTensor::full(f32(std::move(shape)), value));
  };
  AiOnnx onnx = b.aiOnnx();
  const TensorId y = onnx.conv(x, constant({2, 1, 3, 3}, 1), {}, constant({2}, 0.5));
  EXPECT_EQ(b.getTensorShape(y), (Shape{1, 2, 2, 2}));
  const TensorId pooled = onnx.maxpool(y, {.kernel = {2, 2}});
  const TensorId mean = onnx.globalaveragepool(onnx.averagepool(y, {.kernel = {2, 2}}));
  const TensorId two = constant({2}, 2);
  const TensorId normed = onnx.batchnormalization(onnx.add(pooled, mean),
                                                  {.scale = two,
                                                   .bias = constant({2}, 1),
                                                   .mean = constant({2}, 18),
                                                   .variance = constant({2}, 4)},
                                                  0.0);
  const HostTensor out = evaluated(b, normed, HostTensor::full(f32(Shape{1, 1, 4, 4}), 1.0));
  EXPECT_EQ(out.toDoubles(), (Values{2, 2}));  // (9.5 + 9.5 - 18) / 2 * 2 + 1
}

TEST(Builder, HasGraphcoresOps) {
  EXPECT_EQ(valuesOf([](Builder& b, const TensorId& x) {
              return b.aiGraphcore().l1loss(x, 2.0, ops::Reduction::Sum);
            }),
            (Values{62.5}));
  EXPECT_EQ(valuesOf([](Builder& b, const TensorId& x) {
              return b.aiGraphcore().identityloss(x, ops::Reduction::Mean);
            }),
            (Values{29.25 / 6}));
  const auto nll = [](bool logs) {
    return valuesOf([&](Builder& b, const TensorId& x) {
      const TensorId labels =
          b.addInitializedInputTensor(HostTensor::of<std::int64_t>(Shape{2}, {1, 0}));
      return b.aiGraphcore().nllloss(x, labels, {.inputIsLogProbability = logs});
    })[0];
  };
  EXPECT_EQ(nll(true), -2.5);
  EXPECT_NEAR(nll(false), -(std::log(4.0) + std::log(1.0)) / 2, 1e-6);
  const Values same = kInput.toDoubles();
  EXPECT_EQ(valuesOf([](Builder& b, auto x) { return b.aiGraphcore().nop(x); }), same);
  EXPECT_EQ(valuesOf([](Builder& b, auto x) { return b.aiGraphcore().detach(x); }), same);
  EXPECT_NEAR(valuesOf([](Builder& b, auto x) { return b.aiGraphcore().geluerf(x); })[3],
              0.5 * (1 + std::erf(1 / std::sqrt(2.0))),
              1e-6);
  Builder b;
  const TensorId x = b.addInputTensor(f32(Shape{2, 4, 3}), "x");
  const TensorId ones = b.addInitializedInputTensor(HostTensor::full(f32(Shape{4}), 1));
  EXPECT_EQ(b.getTensorShape(b.aiGraphcore().groupnormalization(x, ones, ones, 2)),
            (Shape{2, 4, 3}));
  EXPECT_EQ(b.getTensorShape(b.aiOnnx().dropout(x, 0.1)), (Shape{2, 4, 3}));
}

TEST(Builder, RecordsPlacementsInBothForms) {
  Builder b;
  const TensorId x = b.addInputTensor(f32(Shape{2}), "x");
  const auto placeOf = [&](const TensorId& id) { return b.graph().op(b.value(id).op).place; };
  const TensorId free = b.aiOnnx().relu(x);
  TensorId inner;
  TensorId outer;
  {
    const auto stage = b.pipelineStage(1);
    const auto device = b.virtualGraph(2);
    {
      const auto nested = b.pipelineStage(3);
      const auto phase = b.executionPhase(4);
      inner = b.aiOnnx().relu(x);
    }
    outer = b.aiOnnx().relu(x);
  }
  EXPECT_EQ(placeOf(inner), (ir::Placement{.stage = 3, .phase = 4, .device = 2}));
  EXPECT_EQ(placeOf(outer), (ir::Placement{.stage = 1, .device = 2}));
  EXPECT_EQ(placeOf(b.aiOnnx().relu(x)), ir::Placement());
  b.pipelineStage(free, 5);
  b.virtualGraph(free, 0);
  b.executionPhase(free, 7);
  EXPECT_EQ(placeOf(free), (ir::Placement{.stage = 5, .phase = 7, .device = 0}));
  // An op that is several here is placed as a whole.
  const TensorId loss = b.aiGraphcore().l1loss(free, 2.0);
  b.pipelineStage(loss, 6);
  int placed = 0;
  for (const ir::OpId id : b.graph().order()) {
    placed += b.graph().op(id).place.stage == 6 ? 1 : 0;
  }
  EXPECT_EQ(placed, 4);  // abs, identity_loss, the constant, mul
}

TEST(Builder, RefusesNegativePlacements) {
  Builder b;
  const TensorId x = b.addInputTensor(f32(Shape{2}), "x");
  EXPECT_THAT(messageOf([&] { b.pipelineStage(x, -1); }), HasSubstr("pipelineStage"));
  EXPECT_THAT(messageOf([&] { b.virtualGraph(x, -1); }), HasSubstr("virtualGraph"));
  EXPECT_THAT(messageOf([&] { b.executionPhase(x, -2); }), HasSubstr("executionPhase"));
  EXPECT_THAT(messageOf([&] { const auto scope = b.pipelineStage(-1); }), HasSubstr("got -1"));
  EXPECT_THAT(messageOf([&] { const auto scope = b.virtualGraph(-1); }), HasSubstr("got -1"));
  EXPECT_THAT(messageOf([&] { const auto scope = b.executionPhase(-1); }), HasSubstr("got -1"));
  EXPECT_THAT(messageOf([&] { b.pipelineStage("nobody", 1); }), HasSubstr("'nobody'"));
  EXPECT_EQ(b.graph().op(b.value(x).op).place, ir::Placement());
}

TEST(Builder, KeepsNamesUnique) {
  Builder b;
  EXPECT_EQ(b.addInputTensor(f32(Shape{2}), "x"), "x");
  EXPECT_EQ(b.addInputTensor(f32(Shape{2}), "Relu:0"), "Relu:0");
  EXPECT_EQ(b.addInputTensor(f32(Shape{2})), "input:0");
  EXPECT_EQ(b.addInputTensor(f32(Shape{2})), "input:1");
  EXPECT_EQ(b.aiOnnx().relu("x"), "Relu:1");
  EXPECT_THAT(messageOf([&] { b.addInputTensor(f32(Shape{2}), "x"); }), HasSubstr("already has"));
  EXPECT_THAT(messageOf([&] { b.addInitializedInputTensor(HostTensor(), "x"); }),
              HasSubstr("already has"));
  b.addOutputTensor("x");
  EXPECT_THAT(messageOf([&] { b.addOutputTensor("x"); }), HasSubstr("already is an output"));
  EXPECT_THAT(messageOf([&] { b.addOutputTensor("y"); }), HasSubstr("no tensor 'y'"));
}

TEST(Builder, LeavesTheGraphAsItWasWhenAnOpIsRefused) {
  Builder b;
  const TensorId x = b.addInputTensor(f32(Shape{2, 3}), "x");
  const std::size_t ops = b.graph().numOps();
  EXPECT_THAT(messageOf([&] { b.aiOnnx().matmul(x, x); }), HasSubstr("MatMul"));
  EXPECT_THAT(messageOf([&] { b.aiOnnx().add(x, "nobody"); }), HasSubstr("'nobody'"));
  EXPECT_THAT(messageOf([&] { b.aiOnnx().reshape(x, {-1, -1}); }), HasSubstr("only one"));
  EXPECT_THAT(messageOf([&] { b.aiOnnx().reshape(x, {4, -1}); }), HasSubstr("whole number"));
  EXPECT_THAT(messageOf([&] { b.aiOnnx().slice(x, {{2, 0, 1}}); }), HasSubstr("axis"));
  EXPECT_THAT(messageOf([&] { b.aiOnnx().gemm(x, x, "nobody", {.transB = true}); }),
              HasSubstr("Gemm"));
  EXPECT_THAT(messageOf([&] { b.aiOnnx().gemm(b.aiOnnx().unsqueeze(x, {0}), x); }),
              HasSubstr("two matrices"));
  const TensorId image = b.addInputTensor(f32(Shape{1, 1, 3, 3}), "image");
  EXPECT_THAT(messageOf([&] { b.aiOnnx().conv(image, image, {}, x); }), HasSubstr("bias"));
  EXPECT_EQ(b.graph().numOps(), ops + 2);  // the unsqueeze and the image
  ir::verify(b.graph());
}

/// One input and one output from and to host tensors.
class OneFeed : public runtime::HostFeed {
 public:
  explicit OneFeed(HostTensor x) : x_(std::move(x)) {}
  const void* take(std::int32_t, std::int64_t) override { return x_.bytes(); }

 private:
  HostTensor x_;
};

class OneSink : public runtime::HostSink {
 public:
  void put(std::int32_t, std::int64_t, const void* data) override {
    value = *static_cast<const float*>(data);
  }
  float value = 0;
};

float runOnce(Session& session, const Session::ProgramPtr& program) {
  OneFeed feed(HostTensor::scalar(1.0F));
  OneSink sink;
  session.run(program, {.feed = feed, .sink = sink});
  return sink.value;
}

TEST(Builder, MakesGraphsThatASessionRuns) {
  Builder b;
  const TensorId x = b.addInputTensor(f32(Shape{}), "x");
  const TensorId w = b.addInitializedInputTensor(HostTensor::scalar(3.0F), "w");
  b.addOutputTensor(b.aiOnnx().mul(x, w));
  const Options options;
  Session session(options, 0);
  const auto program = session.compile(compileRequest(b.graph(), 1, {}, options), options).program;
  EXPECT_EQ(runOnce(session, program), 3.0F);
  session.write("w", HostTensor::scalar(5.0F));
  EXPECT_EQ(runOnce(session, program), 5.0F);
}

TEST(Builder, MakesGraphsThatAreTrained) {
  Builder b;
  const TensorId x = b.addInputTensor(f32(Shape{}), "x");
  const TensorId w = b.addInitializedInputTensor(HostTensor::scalar(3.0F), "w");
  const TensorId product = b.aiOnnx().mul(x, w);
  const TensorId loss = b.aiGraphcore().identityloss(b.aiOnnx().mul(product, product));
  b.addOutputTensor(loss);
  ir::Graph graph = b.graph();
  transforms::decompose(graph, [](const ir::Op&) { return false; });
  const optim::SGD optimizer(0.25);
  compiler::addTraining(graph, graph.outputs()[0].value, optimizer, {});
  const Options options;
  Session session(options, 0);
  const auto program = session.compile(compileRequest(graph, 1, {}, options), options).program;
  for (const auto& [name, value] : optimizer.scalars()) {
    if (session.contains(name)) {
      session.fill(name, value);
    }
  }
  // The loss is w², so w <- w - 0.25 * 2 w: it halves.
  EXPECT_EQ(runOnce(session, program), 9.0F);
  EXPECT_EQ(session.read("w").at(0), 1.5);
  EXPECT_EQ(runOnce(session, program), 2.25F);
  EXPECT_EQ(session.read("w").at(0), 0.75);
}

TEST(Builder, MakesAnyOnnxOpByName) {
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{2, 3}}, "x");
  const TensorId k = b.addConstant(HostTensor::of<std::int64_t>(Shape{1}, {2}), "k");
  const std::vector<TensorId> top = b.aiOnnx().node("TopK", {x, k}, {{"axis", 1}}, 2);
  ASSERT_EQ(top.size(), 2U);
  EXPECT_EQ(b.getTensorShape(top[0]), (Shape{2, 2}));
  EXPECT_EQ(b.getTensorDtype(top[1]), DType::I64);
  // An operand in the middle may be left out.
  const TensorId high = b.addConstant(HostTensor::scalar(1.0F));
  EXPECT_EQ(b.getTensorShape(b.aiOnnx().node("Clip", {x, "", high})[0]), (Shape{2, 3}));
  const std::size_t before = b.graph().numOps();
  EXPECT_THAT(messageOf<Error>([&] { b.aiOnnx().node("Frobnicate", {x}); }),
              HasSubstr("no op Frobnicate"));
  EXPECT_THAT(messageOf<Error>([&] { b.aiOnnx().node("Reshape", {x, x}); }), HasSubstr("Reshape"));
  EXPECT_THAT(messageOf<Error>([&] { b.aiOnnx().node("Relu", {"none"}); }), HasSubstr("'none'"));
  EXPECT_EQ(b.graph().numOps(), before);
}

TEST(Builder, MakesOpsInTheFormOfAnyOpset) {
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{2, 3}}, "x");
  const std::vector<ir::NamedAttr> axes{{"axes", std::vector<std::int64_t>{1}}, {"keepdims", 0}};
  const TensorId sum =
      b.op({.op = "ReduceSum", .inputs = {x}, .attrs = axes, .opset = 11, .name = "layer/Sum"})[0];
  EXPECT_EQ(sum, "layer/Sum:0");
  EXPECT_EQ(b.getTensorShape(sum), Shape{2});
  const std::size_t before = b.graph().numOps();
  EXPECT_THAT(messageOf<Error>([&] { b.op({.op = "ReduceSum", .inputs = {x}, .attrs = axes}); }),
              HasSubstr("axes"))
      << "it is an operand in opset 13";
  EXPECT_THAT(messageOf<Error>([&] { b.op({.op = "Einsum", .inputs = {x}, .opset = 11}); }),
              HasSubstr("Einsum"));
  EXPECT_EQ(b.graph().numOps(), before);
}

TEST(Builder, DropoutLeavesItToTheCallerWhereTheOpsetDoes) {
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{64}}, "x");
  const OpCall call{.op = "Dropout", .inputs = {x}, .outputs = 2, .opset = 10, .training = true};
  const std::vector<TensorId> first = b.op(call);
  const std::vector<TensorId> second = b.op(call);
  for (const std::vector<TensorId>& made : {first, second}) {
    b.addOutputTensor(made[0]);
    b.addOutputTensor(made[1]);
  }
  ops::TensorMap none;
  const ops::TensorMap values =
      ops::evaluate(b.graph(), {{"x", HostTensor::full({DType::F32, Shape{64}}, 1.0)}}, none);
  for (const std::vector<TensorId>& made : {first, second}) {
    for (std::int64_t i = 0; i < 64; ++i) {
      EXPECT_EQ(values.at(made[0]).at(i), 2 * values.at(made[1]).at(i)) << "the mask is its own";
    }
  }
  EXPECT_NE(values.at(first[1]).toDoubles(), values.at(second[1]).toDoubles());
  const TensorId kept = b.op({.op = "Dropout", .inputs = {x}, .opset = 10})[0];
  EXPECT_EQ(evaluated(b, kept, HostTensor::full({DType::F32, Shape{64}}, 1.0)).at(0), 1.0);
}

TEST(Builder, GivesItsGraphAsAModelThatIsReadAgain) {
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{2, 3}}, "x");
  const TensorId w =
      b.addInitializedInputTensor(HostTensor::full({DType::F32, Shape{3, 4}}, 0.5), "w");
  const TensorId product = b.aiOnnx().matmul(x, w);
  b.addOutputTensor(b.aiOnnx().relu(product));
  const std::string bytes = b.getModelProto();
  const Builder again(onnx::importModelBytes(std::as_bytes(std::span(bytes))));
  EXPECT_TRUE(again.contains("x"));
  EXPECT_TRUE(again.contains("w"));
  EXPECT_TRUE(again.contains(product)) << "a session may anchor it";
  EXPECT_TRUE(ir::structurallyEqual(again.graph(), b.graph()));
}

TEST(Builder, WritesPlacementsAsPopartDoesAndReadsThem) {
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{2, 3}}, "x");
  TensorId y;
  {
    const PlacementScope device = b.virtualGraph(1);
    const PlacementScope stage = b.pipelineStage(2);
    y = b.aiGraphcore().gelu(x);
  }
  b.addOutputTensor(y);
  const auto placeIn = [&](const std::string& bytes) {
    const Builder again(onnx::importModelBytes(std::as_bytes(std::span(bytes))));
    return again.graph().op(again.value(y).op).place;
  };
  EXPECT_EQ(placeIn(b.getModelProto({.placements = true})),
            (ir::Placement{.stage = 2, .device = 1}));
  EXPECT_EQ(placeIn(b.getModelProto()), ir::Placement()) << "other tools refuse them";
}

}  // namespace
}  // namespace sluice
