// Custom ops in ONNX files: nodes of their domain, in and out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include "sluice/onnx/files.h"
#include "tests/custom/test_library.h"
#include "tests/onnx/text_model.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::messageOf;
using testing::resultOf;
using testing::use;

class OnnxCustomOps : public ::testing::Test {
 protected:
  void SetUp() override { testing::loadTestOps(); }
};

/// A model of one graph in ONNX's text form, with a version of the domain of the tests.
onnx::ImportedModel importText(const std::string& graph, int version = 1) {
  const std::string text = fmt::format(
      "<ir_version: 8, opset_import: [\"\" : 17, \"com.example.test\" : {}, \"other\" : 1]>\n{}",
      version,
      graph);
  ::onnx::ModelProto model;
  ::onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(model);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  const std::string bytes = model.SerializeAsString();
  return onnx::importModelBytes(std::as_bytes(std::span(bytes)));
}

::onnx::ModelProto parsed(const std::string& bytes) {
  ::onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(bytes));
  return model;
}

std::string exportOf(const ops::CustomOpUse& op, const std::vector<TensorType>& inputs) {
  ir::Graph graph;
  ir::GraphBuilder b(graph);
  std::vector<ir::Value> values;
  for (const TensorType& type : inputs) {
    values.push_back(b.input(fmt::format("in{}", values.size()), type));
  }
  graph.addOutput("y", ops::customOp(b, std::move(values), op)[0]);
  return onnx::exportModelBytes(graph);
}

TEST_F(OnnxCustomOps, AreReadAsTheirNodesSay) {
  const auto model = importText(
      "g (float[3] x) => (float[3] y) { y = com.example.test.LeakyRelu<alpha = 0.5>(x) }");
  const HostTensor x = HostTensor::of<float>(Shape{3}, {-4, 0, 3});
  EXPECT_THAT(resultOf(model, {{"x", x}}), ElementsAre(-2, 0, 3));
}

/// A file's version of the domain means the newest op up to it.
TEST_F(OnnxCustomOps, AreOfTheVersionThatTheFileMeans) {
  const std::string graph = "g (float[1] x) => (float[1] y) { y = com.example.test.Times(x) }";
  const ops::TensorMap x = {{"x", HostTensor::of<float>(Shape{1}, {1})}};
  EXPECT_THAT(resultOf(importText(graph, 1), x), ElementsAre(2));
  EXPECT_THAT(resultOf(importText(graph, 2), x), ElementsAre(2));
  EXPECT_THAT(resultOf(importText(graph, 3), x), ElementsAre(3));
  EXPECT_THAT(messageOf<Unsupported>([] {
                importText("g (float[1] x) => (float[1] y) { y = com.example.test.Newer(x) }");
              }),
              AllOf(HasSubstr("com.example.test.Newer is not supported"),
                    HasSubstr("version 1 of domain com.example.test"),
                    HasSubstr("com.example.test.Newer.2")));
}

TEST_F(OnnxCustomOps, ThatAreNotLoadedAreNamed) {
  EXPECT_THAT(messageOf<Unsupported>(
                  [] { importText("g (float[1] x) => (float[1] y) { y = other.Unknown(x) }"); }),
              AllOf(HasSubstr("op other.Unknown is not supported"),
                    HasSubstr("load its library with loadCustomOps")));
}

TEST_F(OnnxCustomOps, WithoutInferenceNeedTheTypesOfTheFile) {
  const std::string graph =
      "g (float[2, 2] x, float[2] w) => (float[2, 2] y{}) "
      "{{ y, s, i = com.example.test.Bands(x, w) }}";
  EXPECT_THAT(messageOf<Unsupported>([&] { importText(fmt::format(fmt::runtime(graph), "")); }),
              HasSubstr("infers no types"));
  const auto model = importText(fmt::format(fmt::runtime(graph), ", float[2] s, int64[2] i"));
  EXPECT_EQ(model.graph.outputs().size(), 3U);
}

TEST_F(OnnxCustomOps, RefuseAttributesThatAreGraphsOrTensors) {
  EXPECT_THAT(messageOf<Unsupported>([] {
                importText(
                    "g (float[1] x) => (float[1] y) { y = com.example.test.LeakyRelu"
                    "<alpha = body () => (float[1] z) { z = Constant<value_float = 1.0>() }>"
                    "(x) }");
              }),
              HasSubstr("'alpha' is a graph"));
  EXPECT_THAT(messageOf([] {
                importText(
                    "g (float[1] x) => (float[1] y) "
                    "{ y = com.example.test.LeakyRelu<alpha = float[1] {1}>(x) }");
              }),
              HasSubstr("got a tensor"));
}

/// All six kinds, out and in again: the op sees the same, and the file has kinds of the standard.
TEST_F(OnnxCustomOps, KeepTheirAttributesInFiles) {
  const std::string bytes = exportOf(use("Attributes",
                                         {{"real", 0.1},
                                          {"integer", 1 << 30},
                                          {"text", "t"},
                                          {"reals", {1.0 / 3}},
                                          {"integers", {5}},
                                          {"texts", {"u", "v"}}}),
                                     {});
  EXPECT_THAT(resultOf(onnx::importModelBytes(std::as_bytes(std::span(bytes))), {}),
              ElementsAre(0.1F, 1 << 30, 't', 1.0F / 3, 5, 'u', 'v'));
  const ::onnx::ModelProto model = parsed(bytes);
  ASSERT_EQ(model.graph().node_size(), 1);
  const ::onnx::NodeProto& node = model.graph().node(0);
  EXPECT_EQ(node.domain(), "com.example.test");
  EXPECT_EQ(node.op_type(), "Attributes");
  std::vector<int> kinds;
  for (const ::onnx::AttributeProto& attr : node.attribute()) {
    kinds.push_back(attr.type());
  }
  using Proto = ::onnx::AttributeProto;
  EXPECT_THAT(
      kinds,
      ElementsAre(
          Proto::INT, Proto::INTS, Proto::FLOAT, Proto::FLOATS, Proto::STRING, Proto::STRINGS));
}

TEST_F(OnnxCustomOps, AreWrittenWithTheirTypesAndVersion) {
  ops::CustomOpUse bands = use("Bands");
  bands.exampleOutputs = {
      {DType::F32, Shape{2, 2}}, {DType::F32, Shape{2}}, {DType::I64, Shape{2}}};
  const std::string bytes = exportOf(bands, {{DType::F32, Shape{2, 2}}, {DType::F32, Shape{2}}});
  const ::onnx::ModelProto model = parsed(bytes);
  ASSERT_EQ(model.opset_import_size(), 2);
  EXPECT_EQ(model.opset_import(1).domain(), "com.example.test");
  EXPECT_EQ(model.opset_import(1).version(), 1);
  EXPECT_EQ(model.graph().node(0).attribute_size(), 1);  // the scales, not the types
  const auto again = onnx::importModelBytes(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(onnx::exportModelBytes(again.graph), bytes);
}

/// In version 3 of the domain Times means another op.
TEST_F(OnnxCustomOps, OfVersionsThatOneFileCannotNameAreRefused) {
  const auto exported = [](std::int64_t version) {
    ir::Graph graph;
    ir::GraphBuilder b(graph);
    ir::Value x = b.input("x", {DType::F32, Shape{1}});
    x = ops::customOp(b, {x}, use("Times"))[0];
    ops::CustomOpUse newer = use("Newer");
    newer.version = version;
    graph.addOutput("y", ops::customOp(b, {x}, newer)[0]);
    return onnx::exportModelBytes(graph);
  };
  EXPECT_EQ(parsed(exported(2)).opset_import(1).version(), 2);
  EXPECT_THAT(messageOf<Unsupported>([&] { exported(3); }),
              AllOf(HasSubstr("com.example.test.Times.1"), HasSubstr("newer Times")));
}

}  // namespace
}  // namespace sluice
