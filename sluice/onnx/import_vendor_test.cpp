// The vendor's ops in model files, against values worked out by hand.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/ir/printer.h"
#include "tests/support/onnx_text.h"

namespace sluice::onnx {
namespace {

using sluice::testing::evaluateOnnx;
using sluice::testing::importOnnx;
using sluice::testing::onnxRefusal;
using sluice::testing::parseOnnx;
using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointwise;

HostTensor f32(Shape shape, std::initializer_list<float> values) {
  return HostTensor::of<float>(std::move(shape), values);
}

HostTensor u32(Shape shape, std::initializer_list<std::uint32_t> values) {
  return HostTensor::of<std::uint32_t>(std::move(shape), values);
}

auto nearDoubles(const std::vector<double>& expected) {
  return Pointwise(DoubleNear(1e-5), expected);
}

TEST(OnnxVendor, CtcsSecondResultIsTheGradientOfEachLoss) {
  // One step, label 1: the loss is minus its log-probability, so the slopes are 0 and -1.
  const HostTensor logs = f32({1, 2, 2}, {std::log(0.25F), std::log(0.75F), -1, -2});
  const ops::TensorMap outputs = evaluateOnnx(
      parseOnnx(R"(main (float[1, 2, 2] x, uint32[2, 1] t, uint32[2] n) => (float y, float g) {
                     y, g = ai.graphcore.Ctc<reduction = "Mean">(x, t, n, n) })"),
      {{"x", logs}, {"t", u32({2, 1}, {1, 1})}, {"n", u32({2}, {1, 1})}});
  EXPECT_THAT(outputs.at("y").toDoubles(), nearDoubles({(2 - std::log(0.75)) / 2}));
  EXPECT_THAT(outputs.at("g").toDoubles(), nearDoubles({0, -1, 0, -1}));
}

TEST(OnnxVendor, AnnotationsPlaceOpsAndHintsAreIgnored) {
  const ImportedModel model = importOnnx(parseOnnx(R"(main (float[2] x) => (float[2] y) {
      h = Relu<__ipu_number = 1, __pipeline_stage = 2, __debug_info_id = 7>(x)
      i = ai.graphcore.Scale<scale = 2.0, __execution_phase = 3, __pipeline_stage = -1>(h)
      y = Neg(i) })"));
  std::vector<ir::Placement> places;
  for (const std::string name : {"h", "i", "y"}) {
    const auto found = std::ranges::find(model.tensors, name, &ImportedTensor::name);
    ASSERT_NE(found, model.tensors.end()) << name;
    places.push_back(model.graph.op(found->value.op).place);
  }
  EXPECT_THAT(
      places,
      ElementsAre(
          ir::Placement{.stage = 2, .device = 1}, ir::Placement{.phase = 3}, ir::Placement()));
  EXPECT_THAT(onnxRefusal("main (float[2] x) => (float[2] y) { y = Relu<__other = 1>(x) }"),
              HasSubstr("'__other'"));
  EXPECT_THAT(
      onnxRefusal("main (float[2] x) => (float[2] y) { y = Relu<__ipu_number = 3000000000>(x) }"),
      HasSubstr("too large"));
}

TEST(OnnxVendor, CtcBeamSearchDecoderTakesLengthsWithoutSign) {
  const ops::TensorMap outputs = evaluateOnnx(
      parseOnnx(R"(main (float[2, 1, 2] x, uint32[1] n) => (float p, uint32 l, uint32 d) {
                     p, l, d = ai.graphcore.CtcBeamSearchDecoder<blank = 1, beamWidth = 9,
                                                                topPaths = 2>(x, n) })"),
      {{"x", f32({2, 1, 2}, {std::log(0.6F), std::log(0.4F), std::log(0.6F), std::log(0.4F)})},
       {"n", u32({1}, {2})}});
  EXPECT_THAT(outputs.at("p").toDoubles(), nearDoubles({0.84, 0.16}));
  EXPECT_THAT(outputs.at("l").toDoubles(), ElementsAre(1, 0));
  EXPECT_THAT(outputs.at("d").toDoubles(), ElementsAre(0, 1, 1, 1));
  EXPECT_EQ(outputs.at("d").dtype(), DType::U32);
}

TEST(OnnxVendor, BatchNormalizationTrainsWhereStatisticsAreAskedFor) {
  const std::string operands = "(x, s, b, m, v)";
  const std::string types =
      "main (float[2, 1] x, float[1] s, float[1] b, float[1] m, float[1] v) => ";
  const ops::TensorMap inputs = {{"x", f32({2, 1}, {1, 5})},
                                 {"s", f32({1}, {1})},
                                 {"b", f32({1}, {0})},
                                 {"m", f32({1}, {1})},
                                 {"v", f32({1}, {16})}};
  const std::string op = "ai.graphcore.BatchNormalization<epsilon = 0.0, momentum = 0.5>";
  const ops::TensorMap fixed =
      evaluateOnnx(parseOnnx(types + "(float[2, 1] y) { y = " + op + operands + "}"), inputs);
  EXPECT_THAT(fixed.at("y").toDoubles(), nearDoubles({0, 1}));
  const ops::TensorMap trained =
      evaluateOnnx(parseOnnx(types +
                             "(float[2, 1] y, float[1] r, float[1] w, float[1] p, float[1] q) "
                             "{ y, r, w, p, q = " +
                             op + operands + "}"),
                   inputs);
  EXPECT_THAT(trained.at("y").toDoubles(), nearDoubles({-1, 1}));
  EXPECT_THAT(trained.at("r").toDoubles(), nearDoubles({2}));   // half of 1, half of 3
  EXPECT_THAT(trained.at("w").toDoubles(), nearDoubles({10}));  // half of 16, half of 4
  EXPECT_THAT(trained.at("p").toDoubles(), nearDoubles({3}));
  EXPECT_THAT(trained.at("q").toDoubles(), nearDoubles({4}));
}

TEST(OnnxVendor, CallInlinesItsSubgraph) {
  const ops::TensorMap outputs =
      evaluateOnnx(parseOnnx(R"(main (float[2] x, float[2] w) => (float[2] y, float[2] z) {
                     y, z = ai.graphcore.Call<callee = twice (float[2] a, float[2] b)
                       => (float[2] c, float[2] d) { c = Mul(a, b)
                                                     d = Sub(c, a) }>(x, w) })"),
                   {{"x", f32({2}, {1, 2})}, {"w", f32({2}, {3, 4})}});
  EXPECT_THAT(outputs.at("y").toDoubles(), ElementsAre(3, 8));
  EXPECT_THAT(outputs.at("z").toDoubles(), ElementsAre(2, 6));
  EXPECT_THAT(onnxRefusal("main (float[2] x) => (float[2] y) { y = ai.graphcore.Call(x) }"),
              HasSubstr("no body 'callee'"));
}

TEST(OnnxVendor, ShapedDropoutDropsInTrainingOnly) {
  const auto model = parseOnnx(
      "main (float[4, 3] x) => (float[4, 3] y) "
      "{ y = ai.graphcore.ShapedDropout<shape = [4, 1], ratio = 0.25>(x) }");
  EXPECT_THAT(ir::print(importOnnx(model).graph), Not(HasSubstr("dropout")));
  EXPECT_THAT(ir::print(importOnnx(model, {.training = true}).graph),
              AllOf(HasSubstr("shaped_dropout("), HasSubstr("ratio=0.25")));
}

TEST(OnnxVendor, TensorRemapIsTheTensor) {
  const ops::TensorMap outputs = evaluateOnnx(
      parseOnnx("main (float[2] x) => (float[2] y) { y = ai.graphcore.TensorRemap<remap_type = 1>"
                "(x) }"),
      {{"x", f32({2}, {1, 2})}});
  EXPECT_THAT(outputs.at("y").toDoubles(), ElementsAre(1, 2));
}

TEST(OnnxVendor, PrintAndAbortAreOpsOfTheGraph) {
  auto model = parseOnnx(R"(main (float[2] x, bool[1] c) => (float[2] y) {
                     y = ai.graphcore.PrintTensor<title = "t", print_gradient = 0>(x) })");
  for (const bool conditional : {true, false}) {  // the text form has no nodes without results
    auto& node = *model.mutable_graph()->add_node();
    node.set_op_type("Abort");
    node.set_domain("ai.graphcore");
    if (conditional) {
      node.add_input("c");
    }
  }
  const std::string text = ir::print(importOnnx(model).graph);
  EXPECT_THAT(text, AllOf(HasSubstr("print_tensor(%"), HasSubstr("title=\"t\"")));
  EXPECT_THAT(text, AllOf(HasSubstr("abort(%"), HasSubstr("abort()")));
}

TEST(OnnxVendor, SplinesAreByTheirOwnNames) {
  const ops::TensorMap outputs = evaluateOnnx(
      parseOnnx(R"(main (float[1, 1] u, int64[1] k, int64[1] o, float[1, 2] x, float[2, 2, 1] w)
                     => (float[1, 1] y) {
                     b, i = ai.graphcore.SplineBasis<degree = 1>(u, k, o)
                     y = ai.graphcore.SplineWeighting(x, w, b, i) })"),
      {{"u", f32({1, 1}, {0.25F})},
       {"k", HostTensor::of<std::int64_t>({1}, {2})},
       {"o", HostTensor::of<std::int64_t>({1}, {1})},
       {"x", f32({1, 2}, {1, 2})},
       {"w", f32({2, 2, 1}, {1, 1, 10, 20})}});
  EXPECT_THAT(outputs.at("y").toDoubles(), nearDoubles({0.75 * 3 + 0.25 * 50}));
}

TEST(OnnxVendor, VersionsOfEveryReadableOpAreKnown) {
  EXPECT_THAT(readableVersions("", "Add"), ElementsAre(1, 6, 7, 13, 14));
  EXPECT_THAT(readableVersions("", "Upsample"), ElementsAre(7, 9));
  EXPECT_THAT(readableVersions("ai.graphcore", "Call"), ElementsAre(1));
}

TEST(OnnxVendor, ReplicatedOpsKnowTheirReplicasFromTheImport) {
  const auto model = parseOnnx(R"(main (float[2, 3] x) => (float s, float g, float p, float m) {
                     s = ai.graphcore.ReplicatedAllReduce(x)
                     g = ai.graphcore.ReplicatedAllGather(x)
                     p = ai.graphcore.ReplicatedReduceScatter(x)
                     m = ai.graphcore.ReplicatedAllReduce<__collectiveOperator = 1>(x) })");
  const ir::Graph graph = importOnnx(model, {.replicas = 4}).graph;
  EXPECT_EQ(graph.type(graph.outputs()[0].value), (TensorType{DType::F32, Shape{2, 3}}));
  EXPECT_EQ(graph.type(graph.outputs()[1].value), (TensorType{DType::F32, Shape{24}}));
  EXPECT_EQ(graph.type(graph.outputs()[2].value), (TensorType{DType::F32, Shape{2}}));
  EXPECT_THAT(ir::print(graph), HasSubstr("0.25"));
  // With one replica each of them is x.
  const ir::Graph one = importOnnx(model, {.replicas = 1}).graph;
  ops::TensorMap none;
  const ops::TensorMap outputs = ops::evaluate(one, {{"x", f32({2, 3}, {1, 2, 3, 4, 5, 6})}}, none);
  for (const char* name : {"s", "g", "p", "m"}) {
    EXPECT_THAT(outputs.at(name).toDoubles(), ElementsAre(1, 2, 3, 4, 5, 6)) << name;
  }
}

TEST(OnnxVendor, ReplicatedOpsOfGroupsOfOneExchangeNothing) {
  const auto model = parseOnnx(R"(main (float[2] x) => (float s, float q, float g, float p) {
      s = ai.graphcore.ReplicatedAllReduce<__collectiveCommGroup = [3, 0]>(x)
      q = ai.graphcore.ReplicatedAllReduce<__collectiveCommGroup = [3, 0],
                                           __collectiveOperator = 7>(x)
      g = ai.graphcore.ReplicatedAllGather<__collectiveCommGroup = [3, 0]>(x)
      p = ai.graphcore.ReplicatedReduceScatter<__collectiveCommGroup = [3, 0]>(x) })");
  const ir::Graph graph = importOnnx(model, {.replicas = 2}).graph;
  EXPECT_THAT(ir::print(graph), Not(HasSubstr("replica")));
  ops::TensorMap none;
  const ops::TensorMap outputs = ops::evaluate(graph, {{"x", f32({2}, {2, 3})}}, none);
  EXPECT_THAT(outputs.at("q").toDoubles(), ElementsAre(4, 9));
  EXPECT_THAT(outputs.at("p").toDoubles(), ElementsAre(2, 3));
}

TEST(OnnxVendor, ReplicatedOpsSayWhatTheyCannotDo) {
  const auto refusal = [](const std::string& call, std::int64_t replicas = 2) {
    const auto model = parseOnnx("main (float[2] x) => (float y) { y = ai.graphcore." + call + "}");
    return sluice::testing::messageOf<Error>([&] { importOnnx(model, {.replicas = replicas}); });
  };
  EXPECT_THAT(refusal("ReplicatedAllGather(x)", 0), HasSubstr("ImportOptions::replicas"));
  EXPECT_THAT(refusal("ReplicatedAllReduce<__collectiveOperator = 4>(x)", 0),
              HasSubstr("ImportOptions::replicas"));
  EXPECT_THAT(refusal("ReplicatedAllGather(x)", -1), HasSubstr("from 1 on, got -1"));
  EXPECT_THAT(refusal("ReplicatedAllReduce<__collectiveOperator = 9>(x)"), HasSubstr("0 to 8"));
  EXPECT_THAT(refusal("ReplicatedAllReduce<__collectiveOperator = 5>(x)"), HasSubstr("bool"));
  EXPECT_THAT(refusal("ReplicatedAllReduce<__collectiveCommGroup = [1, 1]>(x)"),
              HasSubstr("groups of replicas"));
  EXPECT_THAT(refusal("ReplicatedAllReduce<__collectiveCommGroup = [4, 1]>(x)"),
              HasSubstr("a type from 0 to 3"));
  EXPECT_THAT(refusal("ReplicatedAllReduce(x, x)"), HasSubstr("layout of the exchange"));
  EXPECT_THAT(refusal("ReplicatedReduceScatter<__collectiveOperator = 4>(x)"),
              HasSubstr("only sums and means"));
  EXPECT_EQ(refusal("ReplicatedAllReduce<__collectiveCommGroup = [1, 2]>(x)"), "nothing thrown");
}

/// The text form has no nodes without results: those whose only result is `none` lose it.
::onnx::ModelProto withoutNone(::onnx::ModelProto model) {
  for (::onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    if (node.output(0) == "none") {
      node.clear_output();
    }
  }
  return model;
}

TEST(OnnxVendor, HostStreamsAreInputsAndOutputs) {
  const auto model = withoutNone(parseOnnx(R"(main (float[2] x) => (float y) {
      empty = ai.graphcore.Init<shape = [2], tensor_type = 1>()
      a = ai.graphcore.HostLoad<streamid = 7>(empty)
      y = Add(x, a)
      none = ai.graphcore.HostStore<streamid = "out">(y) })"));
  const ir::Graph graph = importOnnx(model).graph;
  ops::TensorMap none;
  const ops::TensorMap outputs =
      ops::evaluate(graph, {{"x", f32({2}, {1, 2})}, {"stream7", f32({2}, {10, 20})}}, none);
  EXPECT_THAT(outputs.at("out").toDoubles(), ElementsAre(11, 22));
  EXPECT_THAT(outputs.at("y").toDoubles(), ElementsAre(11, 22));
  EXPECT_THAT(onnxRefusal(R"(main (float[2] x) => (float y) {
                a = ai.graphcore.HostLoad<streamid = "s">(x)
                y = ai.graphcore.HostLoad<streamid = "s">(x) })"),
              HasSubstr("one tensor for each micro-batch"));
  EXPECT_THAT(onnxRefusal("main (float[2] x) => (float y) { y = ai.graphcore.HostLoad(x) }"),
              HasSubstr("streamid is missing"));
}

TEST(OnnxVendor, RemoteBuffersAreVariables) {
  const auto model = withoutNone(parseOnnx(R"(main (float[2] x, int32[1] at) => (float y, float z) {
      none = ai.graphcore.RemoteStore<bufferid = 3, repeats = 4>(x, at)
      y = ai.graphcore.RemoteLoad<bufferid = 3>(x, at)
      z = ai.graphcore.RemoteLoad<bufferid = 1>(x) })"));
  const ir::Graph graph = importOnnx(model).graph;
  ops::TensorMap state = {{"remote_buffer/3", f32({4, 2}, {0, 0, 0, 0, 0, 0, 0, 0})},
                          {"remote_buffer/1", f32({1, 2}, {5, 6})}};
  const ops::TensorMap outputs = ops::evaluate(
      graph, {{"x", f32({2}, {1, 2})}, {"at", HostTensor::of<std::int32_t>({1}, {2})}}, state);
  EXPECT_THAT(outputs.at("y").toDoubles(), ElementsAre(1, 2));
  EXPECT_THAT(outputs.at("z").toDoubles(), ElementsAre(5, 6));
  EXPECT_THAT(state.at("remote_buffer/3").toDoubles(), ElementsAre(0, 0, 0, 0, 1, 2, 0, 0));
  EXPECT_THAT(onnxRefusal(R"(main (float[2] x, int32[1] at) => (float y) {
                y = ai.graphcore.RemoteLoad<bufferid = 3>(x, at) })"),
              HasSubstr("attribute repeats"));
  EXPECT_THAT(onnxRefusal(R"(main (float[2] x) => (float y) {
                y = ai.graphcore.RemoteLoad<bufferid = 3, repeats = 0>(x) })"),
              HasSubstr("at least 1 row"));
  EXPECT_THAT(onnxRefusal(R"(main (float[2] x, float[1] at) => (float y) {
                y = ai.graphcore.RemoteLoad<bufferid = 3, repeats = 2>(x, at) })"),
              HasSubstr("one whole number"));
  EXPECT_THAT(onnxRefusal(R"(main (float[2] x, float[3] z) => (float y) {
                none = ai.graphcore.RemoteLoad<bufferid = 3>(z)
                y = ai.graphcore.RemoteLoad<bufferid = 3>(x) })"),
              HasSubstr("is f32[1, 3], but is used as f32[1, 2]"));
}

TEST(OnnxVendor, Float8IsKeptInBytes) {
  const auto model =
      parseOnnx(R"(main (float[2] x, int32[1] p, int32[1] n) => (uint8 b, float16 y) {
      b = ai.graphcore.Pow2ScaleThenCast<to = "FLOAT8_152">(x, p)
      y = ai.graphcore.CastThenPow2Scale<from = "FLOAT8_152", to = "FLOAT16">(b, n) })");
  const ops::TensorMap outputs = evaluateOnnx(model,
                                              {{"x", f32({2}, {1, -6.1F})},
                                               {"p", HostTensor::of<std::int32_t>({1}, {1})},
                                               {"n", HostTensor::of<std::int32_t>({1}, {-1})}});
  EXPECT_THAT(outputs.at("b").toDoubles(), ElementsAre(0x44, 0xCE));
  EXPECT_THAT(outputs.at("y").toDoubles(), ElementsAre(1, -6));
  EXPECT_THAT(onnxRefusal(R"(main (float[2] x, int32[1] p) => (uint8 b) {
                b = ai.graphcore.Pow2ScaleThenCast<to = "FLOAT8">(x, p) })"),
              HasSubstr("FLOAT8_143 or FLOAT8_152"));
  EXPECT_THAT(onnxRefusal(R"(main (uint8[2] x, int32[1] p) => (float b) {
                b = ai.graphcore.CastThenPow2Scale<to = "DOUBLE">(x, p) })"),
              HasSubstr("FLOAT or FLOAT16"));
}

}  // namespace
}  // namespace sluice::onnx
