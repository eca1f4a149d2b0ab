// Convolutions, pooling, normalizations and losses of ONNX against values worked out by hand, where
// the standard's own cases leave something out.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/onnx_text.h"

namespace sluice::onnx {
namespace {

using sluice::testing::addInitializer;
using sluice::testing::evaluateOnnx;
using sluice::testing::firstValues;
using sluice::testing::importOnnx;
using sluice::testing::onnxRefusal;
using sluice::testing::parseOnnx;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

using Doubles = std::vector<double>;

HostTensor f32(Shape shape, const std::vector<float>& values) {
  return HostTensor::of<float>(std::move(shape), std::span<const float>(values));
}

HostTensor i64(Shape shape, const std::vector<std::int64_t>& values) {
  return HostTensor::of<std::int64_t>(std::move(shape), std::span<const std::int64_t>(values));
}

auto near(const Doubles& expected) {
  return Pointwise(::testing::DoubleNear(1e-5), expected);
}

/// y of a node over x [1, 1, n] and the weight [1, 1, k].
Doubles convolved(const std::string& node, const HostTensor& x, const HostTensor& w) {
  const std::string graph =
      fmt::format("main (float[1, 1, {}] x, float[1, 1, {}] w) => (float[1, 1, M] y) {{ y = {} }}",
                  x.shape()[2],
                  w.shape()[2],
                  node);
  return evaluateOnnx(parseOnnx(graph), {{"x", x}, {"w", w}}).at("y").toDoubles();
}

TEST(OnnxConv, AutoPadSaysWhereAnOddPadGoes) {
  const HostTensor x = f32(Shape{1, 1, 4}, {1, 2, 3, 4});
  const HostTensor w = f32(Shape{1, 1, 2}, {1, 1});
  EXPECT_THAT(convolved("Conv<auto_pad = \"SAME_UPPER\">(x, w)", x, w), ElementsAre(3, 5, 7, 4));
  EXPECT_THAT(convolved("Conv<auto_pad = \"SAME_LOWER\">(x, w)", x, w), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(convolved("Conv<auto_pad = \"VALID\">(x, w)", x, w), ElementsAre(3, 5, 7));
  EXPECT_THAT(convolved("Conv<pads = [1, 1], strides = [2]>(x, w)", x, w), ElementsAre(1, 5, 4));
}

TEST(OnnxConv, RefusesWhatDoesNotFit) {
  const auto refusal = [](const std::string& node) {
    return onnxRefusal(
        "main (float[1, 2, 4] x, float[3, 2, 2] w, float[2] b, float[2] v) => "
        "(float[1, 3, 3] y) { y = " +
        node + " }");
  };
  EXPECT_THAT(refusal("Conv<auto_pad = \"SOME\">(x, w)"), HasSubstr("auto_pad must be"));
  EXPECT_THAT(refusal("Conv<kernel_shape = [3]>(x, w)"), HasSubstr("kernel_shape [3]"));
  EXPECT_THAT(refusal("Conv(x, v)"), HasSubstr("one rank"));
  EXPECT_THAT(refusal("Conv<strides = [1, 1]>(x, w)"), HasSubstr("strides needs 1 numbers"));
  EXPECT_THAT(refusal("Conv<strides = [0]>(x, w)"), HasSubstr("a stride cannot be 0"));
  EXPECT_THAT(refusal("Conv(x, w, b)"), HasSubstr("bias must be [3]"));
  EXPECT_THAT(refusal("MaxPool(x)"), HasSubstr("kernel_shape is missing"));
  EXPECT_THAT(refusal("MaxPool<kernel_shape = [1]>(v)"), HasSubstr("spatial axes"));
}

TEST(OnnxConvTranspose, SpreadsEachInputOverItsWindow) {
  const HostTensor x = f32(Shape{1, 1, 2}, {1, 2});
  const HostTensor w = f32(Shape{1, 1, 3}, {1, 10, 100});
  const auto spread = [&](const std::string& attrs) {
    return convolved(fmt::format("ConvTranspose<strides = [2]{}>(x, w)", attrs), x, w);
  };
  EXPECT_THAT(spread(""), ElementsAre(1, 10, 102, 20, 200));
  EXPECT_THAT(spread(", pads = [1, 1]"), ElementsAre(10, 102, 20));
  EXPECT_THAT(spread(", output_padding = [1]"), ElementsAre(1, 10, 102, 20, 200, 0));
  EXPECT_THAT(spread(", output_padding = [3], pads = [1, 0]"),
              ElementsAre(10, 102, 20, 200, 0, 0, 0));
  EXPECT_THAT(spread(", output_shape = [7]"), ElementsAre(1, 10, 102, 20, 200, 0, 0));
  EXPECT_THAT(spread(", output_shape = [1, 1, 4]"), ElementsAre(10, 102, 20, 200));
  EXPECT_THAT(spread(", auto_pad = \"SAME_UPPER\""), ElementsAre(1, 10, 102, 20));
  EXPECT_THAT(spread(", auto_pad = \"SAME_LOWER\""), ElementsAre(10, 102, 20, 200));
}

TEST(OnnxConvTranspose, RefusesWhatDoesNotFit) {
  const auto refusal = [](const std::string& node) {
    return onnxRefusal(
        "main (float[1, 2, 4] x, float[3, 2, 2] v, float[2, 2, 2] w) => "
        "(float[1, 2, 5] y) { y = " +
        node + " }");
  };
  EXPECT_THAT(refusal("ConvTranspose(x, v)"), HasSubstr("for 3 channels, the input has 2"));
  EXPECT_THAT(refusal("ConvTranspose<output_shape = [5, 5]>(x, w)"), HasSubstr("output_shape"));
  EXPECT_THAT(refusal("ConvTranspose<pads = [3, 3]>(x, w)"), HasSubstr("leaves nothing"));
}

TEST(OnnxMultiConv, IsItsConvolutionsSideBySide) {
  const ops::TensorMap outputs = evaluateOnnx(parseOnnx(R"(
    main (float[1, 2, 3] a, float[2, 1, 2] v, float[1, 1, 4] x, float[1, 1, 2] w)
        => (float[1, 2, 4] y, float[1, 1, 2] z) {
      y, z = ai.graphcore.MultiConv<strides = [1, 2], pads = [1, 1, 0, 0]>(a, v, x, w)
    })"),
                                              {{"a", f32(Shape{1, 2, 3}, {1, 2, 3, 4, 5, 6})},
                                               {"v", f32(Shape{2, 1, 2}, {1, 1, 1, -1})},
                                               {"x", f32(Shape{1, 1, 4}, {1, 2, 3, 4})},
                                               {"w", f32(Shape{1, 1, 2}, {1, 10})}});
  EXPECT_THAT(outputs.at("y").toDoubles(), ElementsAre(1, 3, 5, 3, -4, -1, -1, 6));
  EXPECT_THAT(outputs.at("z").toDoubles(), ElementsAre(21, 43));
  const auto refusal = [](const std::string& node) {
    return onnxRefusal(
        "main (float[1, 1, 3] x, float[1, 1, 2] w, float[2] v) => "
        "(float[1, 1, 2] y, float[1, 1, 2] z) { y, z = ai.graphcore." +
        node + " }");
  };
  EXPECT_THAT(refusal("MultiConv(x, w, x)"), HasSubstr("pairs"));
  EXPECT_THAT(refusal("MultiConv(x, w, x, v)"), HasSubstr("does not fit"));
  EXPECT_THAT(refusal("MultiConv<strides = [1]>(x, w, x, w)"), HasSubstr("too few"));
}

TEST(OnnxMaxPool, IndicesCountInRowsOrColumns) {
  const HostTensor x = f32(Shape{1, 2, 2, 3}, {1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1});
  const auto indices = [&](int order) {
    return evaluateOnnx(
               parseOnnx(fmt::format(
                   R"(main (float[1, 2, 2, 3] x) => (float[1, 2, 1, 2] y, int64[1, 2, 1, 2] i) {{
                        y, i = MaxPool<kernel_shape = [2, 2], storage_order = {}>(x) }})",
                   order)),
               {{"x", x}})
        .at("i")
        .toDoubles();
  };
  EXPECT_THAT(indices(0), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(indices(1), ElementsAre(3, 5, 6, 8));
}

TEST(OnnxMaxPool, TakesBytes) {
  const HostTensor x = HostTensor::of<std::int8_t>(Shape{1, 1, 4}, {-5, -7, 3, -128});
  const ops::TensorMap outputs =
      evaluateOnnx(parseOnnx("main (int8[1, 1, 4] x) => (int8[1, 1, 2] y) "
                             "{ y = MaxPool<kernel_shape = [2], strides = [2]>(x) }"),
                   {{"x", x}});
  EXPECT_EQ(outputs.at("y").dtype(), DType::I8);
  EXPECT_THAT(outputs.at("y").toDoubles(), ElementsAre(-5, 3));
}

TEST(OnnxNorms, LpNormsOfWindowsAndAxes) {
  const auto value = [](const std::string& node, const HostTensor& x) {
    return evaluateOnnx(
               parseOnnx("main (float[1, 1, 4] x) => (float[1, 1, M] y) { y = " + node + " }"),
               {{"x", x}})
        .at("y")
        .toDoubles();
  };
  const HostTensor x = f32(Shape{1, 1, 4}, {3, -4, 0, 2});
  EXPECT_THAT(value("LpPool<kernel_shape = [2]>(x)", x), near({5, 4, 2}));
  EXPECT_THAT(value("LpPool<kernel_shape = [2], p = 1>(x)", x), near({7, 4, 2}));
  EXPECT_THAT(value("LpPool<kernel_shape = [2], p = 3, pads = [1, 0]>(x)", x),
              near({3, std::cbrt(91.0), 4, 2}));
  EXPECT_THAT(value("GlobalLpPool(x)", x), near({std::sqrt(29.0)}));
  EXPECT_THAT(value("LpNormalization<p = 1>(x)", x), near({3.0 / 9, -4.0 / 9, 0, 2.0 / 9}));
  const HostTensor zeros(DType::F32, Shape{1, 1, 4});
  EXPECT_THAT(value("LpNormalization(x)", zeros), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(onnxRefusal("main (float[2, 3] x) => (float[2, 3] y) { y = LRN<size = 0>(x) }"),
              HasSubstr("size >= 1"));
  EXPECT_THAT(onnxRefusal("main (float[2, 3] x) => (float[2, 3] y) "
                          "{ y = LpNormalization<p = 0>(x) }"),
              HasSubstr("p must be above 0"));
}

TEST(OnnxNorms, LayerNormalizationNeedsNoBias) {
  const ops::TensorMap outputs =
      evaluateOnnx(parseOnnx(R"(main (float[1, 2] x, float[1] s) => (float[1, 2] y, float[1, 1] m) {
                     y, m = LayerNormalization<epsilon = 0.0>(x, s) })"),
                   {{"x", f32(Shape{1, 2}, {1, 5})}, {"s", f32(Shape{1}, {3})}});
  EXPECT_THAT(outputs.at("y").toDoubles(), near({-3, 3}));
  EXPECT_THAT(outputs.at("m").toDoubles(), ElementsAre(3));
}

TEST(OnnxNorms, GroupNormalizationGivesTheStatisticsOfItsGroups) {
  const ops::TensorMap outputs =
      evaluateOnnx(parseOnnx(R"(main (float[1, 4] x, float[4] s, float[4] b)
                       => (float[1, 4] y, float[2] m, float[2] d) {
                     y, m, d = ai.graphcore.GroupNormalization<num_groups = 2, epsilon = 0.0>(x, s, b)
                   })"),
                   {{"x", f32(Shape{1, 4}, {1, 3, 10, 50})},
                    {"s", f32(Shape{4}, {1, 2, 1, 1})},
                    {"b", f32(Shape{4}, {0, 0, 0, 7})}});
  EXPECT_THAT(outputs.at("y").toDoubles(), near({-1, 2, -1, 8}));
  EXPECT_THAT(outputs.at("m").toDoubles(), near({2, 30}));
  EXPECT_THAT(outputs.at("d").toDoubles(), near({1, 0.05}));
}

TEST(OnnxSoftmax, FlattensBehindTheAxisBeforeVersion13) {
  const auto result = [](int opset, const std::string& op) {
    return evaluateOnnx(
               parseOnnx("main (float[1, 2, 2] x) => (float[1, 2, 2] y) { y = " + op + " }",
                         fmt::format("<ir_version: 7, opset_import: [\"\" : {}]>\n", opset)),
               {{"x", f32(Shape{1, 2, 2}, {0, 0, 1, 2})}})
        .at("y")
        .toDoubles();
  };
  const double sum = 2 + std::exp(1.0) + std::exp(2.0);
  EXPECT_THAT(result(11, "Softmax(x)"),
              near({1 / sum, 1 / sum, std::exp(1.0) / sum, std::exp(2.0) / sum}));
  EXPECT_THAT(result(11, "LogSoftmax<axis = 1>(x)"),
              near({-std::log(sum), -std::log(sum), 1 - std::log(sum), 2 - std::log(sum)}));
  EXPECT_THAT(result(11, "Hardmax(x)"), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(result(13, "Hardmax(x)"), ElementsAre(1, 0, 0, 1));
}

constexpr const char* kTrainingNorm = R"(
    main (float[2, 1, 2] x) => (float[2, 1, 2] y) {
      y = BatchNormalization<training_mode = 1, epsilon = 0.0, momentum = 0.75>(x, s, b, m, v)
    })";

TEST(OnnxBatchNormalization, TrainingKeepsRunningStatistics) {
  ::onnx::ModelProto model = parseOnnx(kTrainingNorm);
  addInitializer(model, "s", f32(Shape{1}, {1}));
  addInitializer(model, "b", f32(Shape{1}, {10}));
  addInitializer(model, "m", f32(Shape{1}, {8}));
  addInitializer(model, "v", f32(Shape{1}, {4}));
  const ImportedModel imported = importOnnx(model);
  EXPECT_EQ(imported.graph.findVariable("s")->role, ir::VariableRole::Weight);
  EXPECT_EQ(imported.graph.findVariable("m")->role, ir::VariableRole::Buffer);
  ops::TensorMap variables = firstValues(imported.graph);
  const HostTensor x = f32(Shape{2, 1, 2}, {0, 4, 4, 0});
  const auto outputs = ops::evaluate(imported.graph, {{"x", x}}, variables);
  EXPECT_THAT(outputs.at("y").toDoubles(), near({9, 11, 11, 9}));
  EXPECT_THAT(variables.at("m").toDoubles(), near({0.75 * 8 + 0.25 * 2}));
  EXPECT_THAT(variables.at("v").toDoubles(), near({0.75 * 4 + 0.25 * 4}));
}

TEST(OnnxBatchNormalization, WithoutSpatialEachPositionIsAChannel) {
  const ops::TensorMap outputs = evaluateOnnx(
      parseOnnx(R"(main (float[2, 1, 2] x, float[1, 2] s) => (float[2, 1, 2] y, float[1, 2] m) {
                     y, m = BatchNormalization<spatial = 0, epsilon = 0.0, momentum = 0.0>
                         (x, s, s, s, s) })",
                "<ir_version: 7, opset_import: [\"\" : 7]>\n"),
      {{"x", f32(Shape{2, 1, 2}, {1, 10, 3, 50})}, {"s", f32(Shape{1, 2}, {1, 2})}});
  EXPECT_THAT(outputs.at("y").toDoubles(), near({0, 0, 2, 4}));
  EXPECT_THAT(outputs.at("m").toDoubles(), near({2, 30}));
}

Doubles lossOf(const std::string& operands, const std::string& node, const HostTensor& labels) {
  const HostTensor x = f32(Shape{2, 2}, {0.25, 0.75, 0.5, 0.5});
  return evaluateOnnx(
             parseOnnx("main (float[2, 2] x" + operands + ") => (float y) { y = " + node + " }"),
             {{"x", x}, {"l", labels}, {"w", f32(Shape{2}, {1, 3})}})
      .at("y")
      .toDoubles();
}

TEST(OnnxLosses, TheVendorsLossesReduceAsAsked) {
  const HostTensor labels = HostTensor::of<std::uint32_t>(Shape{2}, {1, 0});
  const std::string types = ", uint32[2] l, float[2] w";
  EXPECT_THAT(lossOf(types, "ai.graphcore.Nll<reduction = \"Sum\">(x, l)", labels),
              near({-std::log(0.75) - std::log(0.5)}));
  EXPECT_THAT(
      lossOf(types, "ai.graphcore.Nll<reduction = \"NoReduction\", ignoreIndex = 0>(x, l)", labels),
      near({-std::log(0.75), 0}));
  EXPECT_THAT(
      lossOf(
          types, "ai.graphcore.Nll<reduction = \"Mean\", inputIsLogProbability = 1>(x, l)", labels),
      near({-0.625}));
  EXPECT_THAT(lossOf(types, "ai.graphcore.L1<reduction = \"Sum\", lambda = 2.0>(x)", labels),
              near({4}));
  EXPECT_THAT(lossOf(types, "ai.graphcore.IdentityLoss<reduction = \"Mean\">(x)", labels),
              near({0.5}));
}

TEST(OnnxLosses, WeightsCountInTheMean) {
  const HostTensor labels = i64(Shape{2}, {1, 0});
  const std::string types = ", int64[2] l, float[2] w";
  EXPECT_THAT(lossOf(types, "NegativeLogLikelihoodLoss(x, l, w)", labels),
              near({-(0.75 * 3 + 0.5) / 4}));
  EXPECT_THAT(lossOf(types, "NegativeLogLikelihoodLoss<ignore_index = 0>(x, l, w)", labels),
              near({-0.75}));
  const auto refusal = [](const std::string& node) {
    return onnxRefusal("main (float[2, 2] x, int64[2] l, float[3] w) => (float y) { y = " + node +
                       " }");
  };
  EXPECT_THAT(refusal("NegativeLogLikelihoodLoss(x, l, w)"), HasSubstr("one per class"));
  EXPECT_THAT(refusal("NegativeLogLikelihoodLoss<reduction = \"max\">(x, l)"),
              HasSubstr("reduction must be"));
  EXPECT_THAT(refusal("ai.graphcore.Nll(l, x)"), HasSubstr("all axes but the last"));
}

TEST(OnnxLosses, CtcIsOurs) {
  const HostTensor logs = f32(Shape{1, 1, 2}, {std::log(0.25F), std::log(0.75F)});
  const HostTensor one = HostTensor::of<std::uint32_t>(Shape{1}, {1});
  const ops::TensorMap outputs =
      evaluateOnnx(parseOnnx(R"(main (float[1, 1, 2] x, uint32[1, 1] t, uint32[1] n) => (float y) {
                     y = ai.graphcore.Ctc<reduction = "Mean", blank = 0, outDataType = 0>
                         (x, t, n, n) })"),
                   {{"x", logs}, {"t", one.reshaped(Shape{1, 1})}, {"n", one}});
  EXPECT_THAT(outputs.at("y").toDoubles(), near({-std::log(0.75)}));
}

}  // namespace
}  // namespace sluice::onnx
