// Statistics of batch norms in ONNX files: state that no gradient changes, however it gets to its
// node, and apart from weights that the file keeps in the same initializer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/sluice.h"
#include "tests/support/onnx_text.h"

namespace sluice {
namespace {

using testing::addInitializer;
using ::testing::ElementsAre;
using testing::importOnnx;
using testing::parseOnnx;
using ::testing::UnorderedElementsAre;

HostTensor pair(float a, float b) {
  return HostTensor::of<float>(Shape{2}, {a, b});
}

std::map<std::string, ir::VariableRole> rolesOf(const ir::Graph& graph) {
  std::map<std::string, ir::VariableRole> roles;
  for (const ir::Variable& variable : graph.variables()) {
    roles.emplace(variable.name, variable.role);
  }
  return roles;
}

const ir::VariableRole kWeight = ir::VariableRole::Weight;
const ir::VariableRole kBuffer = ir::VariableRole::Buffer;

/// A batch norm, then a loss; `nodes` makes what it reads.
::onnx::ModelProto normModel(const std::string& nodes, const std::string& operands) {
  ::onnx::ModelProto model = parseOnnx("main (float[4, 2] x) => (float[] loss) {" + nodes +
                                       "y = BatchNormalization(x, " + operands +
                                       ")\n square = Mul(y, y)\n"
                                       "loss = ReduceMean<keepdims = 0>(square) }");
  addInitializer(model, "zeros", pair(0, 0));
  addInitializer(model, "ones", pair(1, 1));
  return model;
}

/// The values of all variables after two updates.
NamedTensors trained(const ::onnx::ModelProto& proto) {
  Builder b(importOnnx(proto));
  auto model = trainingModel(b, "loss", Options(), optim::SGD(0.5));
  const HostTensor x = HostTensor::of<float>(Shape{4, 2}, {1, 2, -3, 4, 5, -6, 7, 9});
  model.run({x});
  model.run({x});
  return model.stateDict();
}

TEST(OnnxStatistics, ThatShareAnInitializerWithAWeightAreStateOfTheirOwn) {
  // As an exporter merges a fresh batch norm: bias with mean, scale with variance.
  const ::onnx::ModelProto model =
      normModel("bias = Identity(zeros)\n variance = Identity(ones)\n scale = Identity(variance)\n",
                "scale, bias, zeros, variance");
  EXPECT_THAT(rolesOf(importOnnx(model).graph),
              UnorderedElementsAre(std::pair("bias", kWeight),
                                   std::pair("zeros", kBuffer),
                                   std::pair("ones", kWeight),
                                   std::pair("variance", kBuffer)));
  const NamedTensors values = trained(model);
  EXPECT_THAT(values.at("zeros").toDoubles(), ElementsAre(0, 0));
  EXPECT_THAT(values.at("variance").toDoubles(), ElementsAre(1, 1));
  // The loss is mean(y²), so its slope along the bias is not 0, nor along the scale.
  EXPECT_NE(values.at("bias").at(0), 0.0);
  EXPECT_NE(values.at("ones").at(0), 1.0);
}

TEST(OnnxStatistics, TrainAsThoseOfAFileThatMergesNothing) {
  ::onnx::ModelProto apart = normModel("", "scale, bias, mean, variance");
  addInitializer(apart, "scale", pair(1, 1));
  addInitializer(apart, "bias", pair(0, 0));
  addInitializer(apart, "mean", pair(0, 0));
  addInitializer(apart, "variance", pair(1, 1));
  const NamedTensors expected = trained(apart);
  const NamedTensors merged = trained(
      normModel("bias = Identity(zeros)\n scale = Identity(ones)\n", "scale, bias, zeros, ones"));
  EXPECT_TRUE(expected.at("scale").sameBits(merged.at("scale")));
  EXPECT_TRUE(expected.at("bias").sameBits(merged.at("bias")));
  EXPECT_THAT(merged.at("zeros").toDoubles(), ElementsAre(0, 0));
  EXPECT_THAT(merged.at("ones").toDoubles(), ElementsAre(1, 1));
}

TEST(OnnxStatistics, AreStateThroughAnyOpsWithoutInputs) {
  struct Case {
    std::string nodes;
    std::map<std::string, ir::VariableRole> roles;
  };
  const std::vector<Case> cases = {
      {"mean = Identity(zeros)\n variance = Identity(ones)\n",
       {{"mean", kBuffer}, {"variance", kBuffer}}},
      {"mean = Constant<value = float[2] {0, 0}>()\n variance = Constant<value = float[2] {1, "
       "1}>()\n",
       {{"mean", kBuffer}, {"variance", kBuffer}}},
      {"shape = Constant<value = int64[1] {2}>()\n"
       "same = Identity(zeros)\n wide = Cast<to = 11>(same)\n back = Cast<to = 1>(wide)\n"
       "mean = Reshape(back, shape)\n variance = Exp(mean)\n",
       {{"zeros", kBuffer}}}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.nodes);
    ::onnx::ModelProto model = normModel(each.nodes, "scale, bias, mean, variance");
    addInitializer(model, "scale", pair(1, 2));
    addInitializer(model, "bias", pair(3, 4));
    std::map<std::string, ir::VariableRole> roles = each.roles;
    roles.emplace("scale", kWeight);
    roles.emplace("bias", kWeight);
    EXPECT_EQ(rolesOf(importOnnx(model).graph), roles);
    const NamedTensors values = trained(model);
    for (const auto& [name, role] : each.roles) {
      EXPECT_THAT(values.at(name).toDoubles(),
                  name == "variance" ? ElementsAre(1, 1) : ElementsAre(0, 0));
    }
  }
}

TEST(OnnxStatistics, ComputedFromAWeightThatIsUsedElsewhereHaveStateOfTheirOwn) {
  ::onnx::ModelProto model = normModel(
      "shape = Constant<value = int64[1] {2}>()\n"
      "mean = Reshape(zeros, shape)\n bias = Add(zeros, ones)\n",
      "scale, bias, mean, variance");
  addInitializer(model, "scale", pair(1, 1));
  addInitializer(model, "variance", pair(1, 1));
  EXPECT_THAT(rolesOf(importOnnx(model).graph),
              UnorderedElementsAre(std::pair("zeros", kWeight),
                                   std::pair("ones", kWeight),
                                   std::pair("mean", kBuffer),
                                   std::pair("scale", kWeight),
                                   std::pair("variance", kBuffer)));
  const NamedTensors values = trained(model);
  EXPECT_THAT(values.at("mean").toDoubles(), ElementsAre(0, 0));
  EXPECT_NE(values.at("zeros").at(0), 0.0);
}

TEST(OnnxStatistics, OfTheTrainingFormAreTrackedThroughIdentity) {
  ::onnx::ModelProto model = parseOnnx(R"(main (float[2, 1, 2] x) => (float[2, 1, 2] y) {
      bias = Identity(zero)
      mean = Identity(zero)
      y = BatchNormalization<training_mode = 1, epsilon = 0.0, momentum = 0.75>
          (x, one, bias, mean, zero) })");
  addInitializer(model, "zero", HostTensor::of<float>(Shape{1}, {0}));
  addInitializer(model, "one", HostTensor::of<float>(Shape{1}, {1}));
  const onnx::ImportedModel imported = importOnnx(model);
  ops::TensorMap variables = testing::firstValues(imported.graph);
  ops::evaluate(
      imported.graph, {{"x", HostTensor::of<float>(Shape{2, 1, 2}, {0, 4, 4, 0})}}, variables);
  EXPECT_THAT(variables.at("mean").toDoubles(), ElementsAre(0.25 * 2));
  EXPECT_THAT(variables.at("zero").toDoubles(), ElementsAre(0.25 * 4));
  EXPECT_THAT(variables.at("bias").toDoubles(), ElementsAre(0));
}

TEST(OnnxStatistics, ComeBackFromAnExportedModel) {
  const ::onnx::ModelProto model =
      normModel("bias = Identity(zeros)\n scale = Identity(ones)\n", "scale, bias, zeros, ones");
  Builder b(importOnnx(model));
  const std::string bytes = b.getModelProto();
  const ir::Graph again = onnx::importModelBytes(std::as_bytes(std::span(bytes))).graph;
  EXPECT_EQ(rolesOf(again), rolesOf(b.graph()));
  const ops::TensorMap inputs = {
      {"x", HostTensor::of<float>(Shape{4, 2}, {1, 2, -3, 4, 5, -6, 7, 9})}};
  ops::TensorMap first = testing::firstValues(b.graph());
  ops::TensorMap second = testing::firstValues(again);
  EXPECT_TRUE(ops::evaluate(b.graph(), inputs, first)
                  .at("loss")
                  .sameBits(ops::evaluate(again, inputs, second).at("loss")));
}

}  // namespace
}  // namespace sluice
