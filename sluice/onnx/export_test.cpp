// The forms that ops have in files. The conformance suite compares the values of every op's form;
// here are the nodes themselves, and values that its cases do not reach.
#include <bit>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/ir/graph.h"
#include "sluice/ir/printer.h"
#include "sluice/onnx/files.h"
#include "sluice/onnx/proto.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/image_ops.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/window_ops.h"
#include "tests/support/message_of.h"
#include "tests/support/onnx_check.h"
#include "tests/support/onnx_text.h"

namespace sluice::onnx {
namespace {

using ir::GraphBuilder;
using ir::Value;
using sluice::testing::expectStandard;
using sluice::testing::parseModelBytes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A graph of one output, "y".
template <class Make>
ir::Graph graphOf(Make make) {
  ir::Graph graph("main");
  GraphBuilder b(graph);
  graph.addOutput("y", make(b));
  return graph;
}

Value floats(GraphBuilder& b, const std::string& name, Shape shape) {
  return b.input(name, {DType::F32, std::move(shape)});
}

/// The ops of the nodes in order; those of other domains with their domain.
std::vector<std::string> nodesOf(const ir::Graph& graph, Exact exact = Exact::No) {
  const pb::ModelProto model = parseModelBytes(exportModelBytes(graph, {.exact = exact}));
  if (exact == Exact::No) {
    expectStandard(model);
  }
  std::vector<std::string> names;
  for (const pb::NodeProto& node : model.graph().node()) {
    names.push_back(node.domain() + (node.domain().empty() ? "" : ".") + node.op_type());
  }
  return names;
}

ir::Graph throughAFile(const ir::Graph& graph, Exact exact = Exact::No) {
  const std::string bytes = exportModelBytes(graph, {.exact = exact});
  return importModelBytes(std::as_bytes(std::span(bytes))).graph;
}

HostTensor valueOf(const ir::Graph& graph, const ops::TensorMap& inputs) {
  ops::TensorMap variables = sluice::testing::firstValues(graph);
  return ops::evaluate(graph, inputs, variables, {.seed = 7}).at("y");
}

TEST(OnnxExport, ATransposedMatrixOfAProductIsATransposeOrAGemm) {
  const ir::Graph read = graphOf([](GraphBuilder& b) {
    const Value x = floats(b, "x", {2, 3, 4});
    const Value w = floats(b, "w", {3, 5});  // inputs first, as the importer makes them
    return ops::matmul(b, ops::transpose(b, x, {0, 2, 1}), w);
  });
  EXPECT_THAT(nodesOf(read), ElementsAre("Transpose", "MatMul"));
  EXPECT_THAT(nodesOf(read, Exact::Yes), ElementsAre("sluice.transpose", "sluice.matmul"));
  EXPECT_TRUE(ir::structurallyEqual(throughAFile(read, Exact::Yes), read));
  const ir::Graph batched = graphOf([](GraphBuilder& b) {
    return ops::matmul(b, floats(b, "x", {2, 3, 4}), floats(b, "w", {5, 4}), {.transposeB = true});
  });
  EXPECT_THAT(nodesOf(batched), ElementsAre("Transpose", "MatMul"));
  EXPECT_TRUE(ir::structurallyEqual(throughAFile(batched), batched));
  const ir::Graph matrices = graphOf([](GraphBuilder& b) {
    return ops::matmul(b, floats(b, "x", {4, 3}), floats(b, "w", {4, 5}), {.transposeA = true});
  });
  EXPECT_THAT(nodesOf(matrices), ElementsAre("Gemm"));
  EXPECT_TRUE(ir::structurallyEqual(throughAFile(matrices), matrices));
}

TEST(OnnxExport, ASliceWithoutStepsIsASlice) {
  const ir::Graph graph = graphOf([](GraphBuilder& b) {
    return ops::slice(b, floats(b, "x", {4, 5}), {1, -3}, {3, 5});
  });
  EXPECT_THAT(nodesOf(graph), ElementsAre("Slice"));
  EXPECT_THAT(nodesOf(graph, Exact::Yes), ElementsAre("sluice.slice"));
}

TEST(OnnxExport, TheGradientOfAConvolutionIsAConvTranspose) {
  // Windows at 0 and 3 leave the last column of 6 out, which output_padding brings back.
  const ir::Graph graph = graphOf([](GraphBuilder& b) {
    return ops::convGradInput(b,
                              floats(b, "w", {2, 3, 2, 2}),
                              floats(b, "dy", {1, 2, 2, 2}),
                              Shape{1, 3, 5, 6},
                              {.strides = {3, 3}, .pads = {0, 0, 0, 0}, .dilations = {1, 1}});
  });
  const pb::ModelProto model = parseModelBytes(exportModelBytes(graph));
  expectStandard(model);
  ASSERT_EQ(model.graph().node_size(), 1);
  EXPECT_EQ(model.graph().node(0).op_type(), "ConvTranspose");
  const auto& attributes = model.graph().node(0).attribute();
  const auto padding = std::find_if(attributes.begin(), attributes.end(), [](const auto& attr) {
    return attr.name() == "output_padding";
  });
  ASSERT_NE(padding, attributes.end());
  EXPECT_THAT(padding->ints(), ElementsAre(0, 1));
  EXPECT_TRUE(ir::structurallyEqual(throughAFile(graph), graph));
}

TEST(OnnxExport, LossesOverClassesAreTheStandards) {
  const auto loss = [](double smoothing) {
    return graphOf([&](GraphBuilder& b) {
      const Value labels = b.input("labels", {DType::I64, Shape{4}});
      return ops::crossEntropy(b, floats(b, "x", {4, 3}), labels, {.labelSmoothing = smoothing});
    });
  };
  EXPECT_THAT(nodesOf(loss(0.0)), ElementsAre("SoftmaxCrossEntropyLoss"));
  EXPECT_THAT(nodesOf(loss(0.0), Exact::Yes), ElementsAre("sluice.cross_entropy"));
  EXPECT_EQ(nodesOf(loss(0.1)).back(), "NegativeLogLikelihoodLoss");
  const ir::Graph nll = graphOf([](GraphBuilder& b) {
    return ops::nllLoss(
        b, floats(b, "x", {4, 3}), b.input("labels", {DType::I32, Shape{4}}), {.ignoreIndex = 1});
  });
  EXPECT_THAT(nodesOf(nll), ElementsAre("NegativeLogLikelihoodLoss"));
  EXPECT_TRUE(ir::structurallyEqual(throughAFile(nll), nll));
}

TEST(OnnxExport, AGroupPerChannelIsAnInstanceNorm) {
  const auto norm = [](std::int64_t groups) {
    return graphOf([&](GraphBuilder& b) {
      return ops::groupNorm(
          b, floats(b, "x", {2, 4, 3}), floats(b, "gamma", {4}), floats(b, "beta", {4}), groups);
    });
  };
  EXPECT_THAT(nodesOf(norm(4)), ElementsAre("InstanceNormalization"));
  EXPECT_TRUE(ir::structurallyEqual(throughAFile(norm(4)), norm(4)));
  EXPECT_THAT(nodesOf(norm(2)), ::testing::Contains("LayerNormalization"));
}

TEST(OnnxExport, ANameOfTwoTensorsIsRefused) {
  ir::Graph output("main");
  GraphBuilder b(output);
  output.addOutput("x", ops::neg(b, floats(b, "x", {2})));
  EXPECT_THAT(sluice::testing::messageOf<InvalidArgument>([&] { exportModelBytes(output); }),
              HasSubstr("'x' is the name of an input and of another value's output"));
  ir::Graph variable("main");
  GraphBuilder c(variable);
  variable.addVariable({"x",
                        {DType::F32, Shape{2}},
                        ir::VariableRole::Weight,
                        true,
                        ir::Initializer::of(HostTensor::of<float>(Shape{2}, {3, 4}))});
  variable.addOutput("y", ops::mul(c, floats(c, "x", {2}), c.variable("x")));
  EXPECT_THAT(sluice::testing::messageOf<InvalidArgument>([&] { exportModelBytes(variable); }),
              HasSubstr("an input and of a variable"));
}

TEST(OnnxExport, AnAngleKnowsTheSignsOfZero) {
  const ir::Graph graph = graphOf([](GraphBuilder& b) {
    const Value y = floats(b, "x", {6});
    const Value x = floats(b, "w", {6});
    return b.add(*ops::opSet().find("atan2"), {y, x});
  });
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ops::TensorMap inputs = {
      {"x", HostTensor::of<float>(Shape{6}, {1, -1, 0, -0.0F, 0, 1})},
      {"w", HostTensor::of<float>(Shape{6}, {-0.0F, -0.0F, -0.0F, -0.0F, nan, 0})}};
  EXPECT_TRUE(valueOf(throughAFile(graph), inputs).sameBits(valueOf(graph, inputs)));
}

TEST(OnnxExport, WhatIsDetachedOrMarkedStaysSo) {
  ir::Graph graph("main");
  GraphBuilder b(graph);
  graph.addVariable({"w",
                     {DType::F32, Shape{2}},
                     ir::VariableRole::Weight,
                     true,
                     ir::Initializer::of(HostTensor::of<float>(Shape{2}, {3, 4}))});
  const Value x = floats(b, "x", {2});  // first, as the importer makes it
  Value y = ops::mul(b, x, ops::detach(b, b.variable("w")));
  y = ops::recomputationCheckpoint(b, ops::nop(b, y));
  ops::tensorLocation(b, y, true);
  ops::tensorLocation(b, y, false);
  graph.addOutput("y", y);
  EXPECT_THAT(nodesOf(graph),
              ElementsAre("Identity", "Mul", "Identity", "Identity", "Identity", "Identity"));
  const ir::Graph again = throughAFile(graph);
  EXPECT_TRUE(ir::structurallyEqual(again, graph)) << ir::print(again);
}

TEST(OnnxExport, AnyOtherNoteOfAnIdentityIsPassedOver) {
  pb::ModelProto model =
      sluice::testing::parseOnnx("main (float[2] x) => (float[2] y) { y = Identity(x) }");
  model.mutable_graph()->mutable_node(0)->set_doc_string("sluice:unknown");
  const ImportedModel imported = sluice::testing::importOnnx(model);
  EXPECT_THAT(ir::print(imported.graph), HasSubstr("identity"));
}

TEST(OnnxExport, DropoutDropsAndKeepsItsProbability) {
  const ir::Graph graph =
      graphOf([](GraphBuilder& b) { return ops::dropout(b, floats(b, "x", {64}), 0.3); });
  EXPECT_THAT(nodesOf(graph), ElementsAre("Constant", "Dropout"));
  EXPECT_TRUE(ir::structurallyEqual(throughAFile(graph), graph)) << ir::print(throughAFile(graph));
}

TEST(OnnxExport, AMaskBelongsToItsDropoutInTheFileToo) {
  const ir::Graph graph =
      sluice::testing::importOnnx(
          sluice::testing::parseOnnx("main (float[64] x) => (bool[64] y) {\n"
                                     "  ratio = Constant<value = float {0.5}>()\n"
                                     "  train = Constant<value = bool {1}>()\n"
                                     "  kept, mask = Dropout(x, ratio, train)\n"
                                     "  zero = Constant<value = float {0}>()\n"
                                     "  same = Equal(kept, zero)\n"
                                     "  y = Xor(same, mask)\n"
                                     "}"))
          .graph;
  // Elements that are kept differ from 0, so exactly one of the two holds for each.
  const ops::TensorMap ones = {{"x", HostTensor::full({DType::F32, Shape{64}}, 1.0)}};
  const HostTensor all = HostTensor::full({DType::Bool, Shape{64}}, 1.0);
  ASSERT_TRUE(valueOf(graph, ones).sameBits(all));
  const std::vector<std::string> nodes = nodesOf(graph);
  EXPECT_EQ(std::count(nodes.begin(), nodes.end(), "Dropout"), 1);
  EXPECT_TRUE(valueOf(throughAFile(graph), ones).sameBits(all));
}

/// BatchNormalization in training mode, by the importer.
ir::Graph trainedNorm() {
  pb::ModelProto model = sluice::testing::parseOnnx(
      "main (float[4, 2] x) => (float[4, 2] y) {\n"
      "  n, m, v = BatchNormalization<training_mode = 1, momentum = 0.75>(x, s, b, mean, var)\n"
      "  y = Relu(n)\n"
      "}");
  const auto pair = [](float first, float second) {
    return HostTensor::of<float>(Shape{2}, {first, second});
  };
  sluice::testing::addInitializer(model, "s", pair(1, 2));
  sluice::testing::addInitializer(model, "b", pair(0, 1));
  sluice::testing::addInitializer(model, "mean", pair(1, 0));
  sluice::testing::addInitializer(model, "var", pair(1, 4));
  return sluice::testing::importOnnx(model).graph;
}

TEST(OnnxExport, RunningStatisticsAreThoseOfATrainingNode) {
  const ir::Graph graph = trainedNorm();
  for (const Exact exact : {Exact::No, Exact::Yes}) {
    const pb::ModelProto model = parseModelBytes(exportModelBytes(graph, {.exact = exact}));
    expectStandard(model);
    ASSERT_EQ(model.graph().node_size(), 2);
    EXPECT_THAT(model.graph().node(0).input(), ElementsAre("x", "s", "b", "mean", "var"));
    const ir::Graph again = throughAFile(graph, exact);
    EXPECT_TRUE(ir::structurallyEqual(again, graph)) << ir::print(again);
  }
  // Mean 2.5, variance 1.25 in both channels; the averages move a quarter of the way.
  const HostTensor x = HostTensor::of<float>(Shape{4, 2}, {1, 4, 2, 3, 3, 2, 4, 1});
  const ir::Graph again = throughAFile(graph);
  ops::TensorMap variables = sluice::testing::firstValues(again);
  ops::evaluate(again, {{"x", x}}, variables);
  EXPECT_THAT(variables.at("mean").toDoubles(), ElementsAre(1.375, 0.625));
  EXPECT_THAT(variables.at("var").toDoubles(), ElementsAre(1.0625, 3.3125));
}

TEST(OnnxExport, OtherWritesOfStateAreRefused) {
  ir::Graph graph = trainedNorm();
  GraphBuilder b(graph);
  b.assign("s", b.variable("mean"));
  EXPECT_THAT(sluice::testing::messageOf<Unsupported>([&] { exportModelBytes(graph); }),
              HasSubstr("writes state"));
}

TEST(OnnxExport, TypesThatTheStandardLacksAreCast) {
  const ir::Graph conv = graphOf([](GraphBuilder& b) {
    const Value x = b.input("x", {DType::BF16, Shape{1, 2, 4}});
    return ops::conv(b, x, b.input("w", {DType::BF16, Shape{3, 2, 2}}));
  });
  EXPECT_THAT(nodesOf(conv), ElementsAre("Cast", "Cast", "Conv", "Cast"));
  EXPECT_THAT(nodesOf(conv, Exact::Yes), ElementsAre("Conv"));
  const ir::Graph picked = graphOf([](GraphBuilder& b) {
    return ops::pad(b, b.input("x", {DType::BF16, Shape{3}}), {1}, {0}, "constant", 0.5);
  });
  const ir::Graph again = throughAFile(picked);
  EXPECT_TRUE(again.variables().empty());
  const HostTensor x = cast(HostTensor::of<float>(Shape{3}, {1, 2, 3}), DType::BF16);
  EXPECT_THAT(valueOf(again, {{"x", x}}).toDoubles(), ElementsAre(0.5, 1, 2, 3));
}

TEST(OnnxExport, NumbersThatFilesWouldRoundAreRoundedUnlessTheFileIsExact) {
  const ir::Graph graph =
      graphOf([](GraphBuilder& b) { return ops::clamp(b, floats(b, "x", {3}), -0.1, 1.0 / 3.0); });
  EXPECT_EQ(nodesOf(graph).back(), "Clip");
  EXPECT_THAT(nodesOf(graph, Exact::Yes), ElementsAre("sluice.clamp"));
  const ops::TensorMap inputs = {{"x", HostTensor::of<float>(Shape{3}, {-1, 0.25F, 1})}};
  EXPECT_TRUE(valueOf(throughAFile(graph), inputs).sameBits(valueOf(graph, inputs)));
  const ir::Graph leaky = graphOf([](GraphBuilder& b) {
    return b.add(*ops::opSet().find("leaky_relu"), {floats(b, "x", {3})}, {{"alpha", 1.0 / 3.0}});
  });
  EXPECT_THAT(nodesOf(leaky), ElementsAre("LeakyRelu"));
  EXPECT_THAT(nodesOf(leaky, Exact::Yes), ElementsAre("sluice.leaky_relu"));
}

TEST(OnnxExport, AResizeIsOneUnlessItsScalesContradictItsSizes) {
  const auto resize = [](std::vector<double> scales) {
    return graphOf([&](GraphBuilder& b) {
      return ops::resize(b, floats(b, "x", {2, 4}), {.sizes = {2, 6}, .scales = std::move(scales)});
    });
  };
  EXPECT_THAT(nodesOf(resize({})), ElementsAre("Resize"));
  EXPECT_EQ(nodesOf(resize({1.0, 1.5})).back(), "Resize");
  for (const std::vector<double>& scales : {std::vector<double>{}, std::vector{1.0, 1.5}}) {
    for (const Exact exact : {Exact::No, Exact::Yes}) {
      const ir::Graph again = throughAFile(resize(scales), exact);
      EXPECT_TRUE(ir::structurallyEqual(again, resize(scales))) << ir::print(again);
    }
  }
  // 4 * 1.7 is 6 too, but 32 bits do not hold 1.7.
  EXPECT_THAT(nodesOf(resize({1.0, 1.7})), ElementsAre("Constant", "Gather"));
  EXPECT_THAT(nodesOf(resize({1.0, 2.0})), ElementsAre("Constant", "Gather"));
}

TEST(OnnxExport, MaxPoolingKeepsItsPlacesInWindows) {
  const ir::Graph graph = graphOf([](GraphBuilder& b) {
    const std::vector<Value> results = b.addMany(
        ops::kMaxPool,
        {floats(b, "x", {1, 2, 3, 6})},
        {{"kernel", {2, 2}}, {"strides", {2, 2}}, {"pads", {1, 0, 0, 0}}, {"dilations", {1, 2}}});
    return results[1];
  });
  const HostTensor x = HostTensor::of<float>(
      Shape{1, 2, 3, 6}, {0, 9, 1, 2, 5, 3, 4, 4, 8, 1, 1, 1, 7, 2, 2, 9, 0, 6,
                          1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1, 0, 0, 1, 9, 9, 1});
  nodesOf(graph);
  EXPECT_TRUE(valueOf(throughAFile(graph), {{"x", x}}).sameBits(valueOf(graph, {{"x", x}})));
}

HostTensor unary(const ir::OpDef& def, const HostTensor& x) {
  const ir::Graph graph =
      graphOf([&](GraphBuilder& b) { return b.add(def, {b.input("x", x.type())}); });
  return valueOf(throughAFile(graph), {{"x", x}});
}

TEST(OnnxExport, TheTailOfErfcKeepsDigits) {
  const HostTensor x = HostTensor::of<float>(Shape{6}, {-3.0F, -0.5F, 0.9F, 1.1F, 4.0F, 9.0F});
  const HostTensor wide = HostTensor::of<double>(Shape{4}, {0.9, 3.4, 3.6, 20.0});
  const HostTensor tails = unary(ops::kErfc, x);
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(tails.at(i) / std::erfc(x.at(i)), 1.0, 1e-5) << x.at(i);  // exp(-81) in float
  }
  const HostTensor wideTails = unary(ops::kErfc, wide);
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(wideTails.at(i) / std::erfc(wide.at(i)), 1.0, 2e-7) << wide.at(i);
  }
}

TEST(OnnxExport, NothingCancelsInTheFormsOfExpm1AndLog1p) {
  const HostTensor x = HostTensor::of<float>(Shape{6}, {-1e-6F, 1e-20F, 1e-3F, 0.6F, 30.0F, -0.7F});
  const HostTensor grown = unary(ops::kExpm1, x);
  const HostTensor logs = unary(ops::kLog1p, x);
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(grown.at(i) / std::expm1(x.at(i)), 1.0, 1e-6) << x.at(i);
    EXPECT_NEAR(logs.at(i) / std::log1p(x.at(i)), 1.0, 1e-6) << x.at(i);
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const HostTensor ends = HostTensor::of<float>(Shape{2}, {kInfinity, -1.0F});
  EXPECT_EQ(unary(ops::kLog1p, ends).at(0), kInfinity);
  EXPECT_EQ(unary(ops::kLog1p, ends).at(1), -kInfinity);
  EXPECT_EQ(unary(ops::kExpm1, ends).at(0), kInfinity);
}

TEST(OnnxExport, AnglesAreRightInAllQuadrantsAndOnTheAxes) {
  std::vector<float> ys;
  std::vector<float> xs;
  for (const float y : {-2.0F, -0.0F, 0.0F, 3.0F}) {
    for (const float x : {-2.0F, 0.0F, 0.5F}) {
      ys.push_back(y);
      xs.push_back(x);
    }
  }
  const ir::Graph graph = graphOf(
      [](GraphBuilder& b) { return ops::atan2(b, floats(b, "y0", {12}), floats(b, "x0", {12})); });
  const HostTensor found =
      valueOf(throughAFile(graph),
              {{"y0", HostTensor::of<float>(Shape{12}, std::span<const float>(ys))},
               {"x0", HostTensor::of<float>(Shape{12}, std::span<const float>(xs))}});
  for (std::size_t i = 0; i < ys.size(); ++i) {
    EXPECT_NEAR(found.at(static_cast<std::int64_t>(i)), std::atan2(ys[i], xs[i]), 1e-6)
        << ys[i] << " over " << xs[i];
  }
}

TEST(OnnxExport, SignedNumbersAreShiftedByProducts) {
  const auto shifted = [](const char* direction) {
    return graphOf([&](GraphBuilder& b) {
      const Value x = b.input("x", {DType::I64, Shape{3, 1}});
      return ops::bitShift(b, x, b.input("n", {DType::I64, Shape{6}}), direction);
    });
  };
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const ops::TensorMap inputs = {
      {"x", HostTensor::of<std::int64_t>(Shape{3, 1}, {-5, 7, kLeast})},
      {"n", HostTensor::of<std::int64_t>(Shape{6}, {0, 1, 62, 63, 64, -1})}};
  for (const char* direction : {"LEFT", "RIGHT"}) {
    const ir::Graph graph = shifted(direction);
    nodesOf(graph);
    EXPECT_TRUE(valueOf(throughAFile(graph), inputs).sameBits(valueOf(graph, inputs))) << direction;
  }
}

TEST(OnnxExport, WideStatisticsOfALayerNormAreSaidInParts) {
  const ir::Graph graph = graphOf([](GraphBuilder& b) {
    const auto doubles = [&](const char* name, Shape shape) {
      return b.input(name, {DType::F64, std::move(shape)});
    };
    return b.addMany(ops::kLayerNorm,
                     {doubles("x", {2, 4}), doubles("gamma", {4}), doubles("beta", {4})},
                     {{"axis", 1}, {"epsilon", 0.0}})[2];
  });
  nodesOf(graph);
  const HostTensor x = HostTensor::of<double>(Shape{2, 4}, {1, 3, 1, 3, 0, 4, 0, 4});
  // Deviations 1 and 2.
  EXPECT_THAT(valueOf(throughAFile(graph), {{"x", x}}).toDoubles(), ElementsAre(1, 0.5));
}

}  // namespace
}  // namespace sluice::onnx
