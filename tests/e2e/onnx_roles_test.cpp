// What a user says about the initializers of an ONNX file: which of them training leaves alone, and
// which are state and no weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/sluice.h"
#include "tests/support/message_of.h"
#include "tests/support/onnx_text.h"

namespace sluice {
namespace {

using testing::addInitializer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::messageOf;
using testing::parseOnnx;

/// loss = mean((((x + first_bias) + shift) * last_scale)²)
::onnx::ModelProto chain() {
  ::onnx::ModelProto model = parseOnnx(
      "main (float[4, 2] x) => (float[] loss) { a = Add(x, first_bias)\n"
      "b = Add(a, shift)\n c = Mul(b, last_scale)\n square = Mul(c, c)\n"
      "loss = ReduceMean<keepdims = 0>(square) }");
  for (const char* name : {"first_bias", "shift", "last_scale"}) {
    addInitializer(model, name, HostTensor::of<float>(Shape{2}, {2, 3}));
  }
  return model;
}

struct Trained {
  NamedTensors values;  ///< after two updates
  std::vector<std::string> weights;
};

Trained trained(const onnx::ImportOptions& options) {
  Builder b(testing::importOnnx(chain(), options));
  auto model = trainingModel(b, "loss", Options(), optim::SGD(0.5));
  const HostTensor x = HostTensor::of<float>(Shape{4, 2}, {1, 2, -3, 4, 5, -6, 7, 9});
  model.run({x});
  model.run({x});
  Trained result{model.stateDict(), {}};
  for (const ir::Variable& variable : b.graph().variables()) {
    if (variable.role == ir::VariableRole::Weight) {
      result.weights.push_back(variable.name);
    }
  }
  return result;
}

bool hasChanged(const Trained& result, const std::string& name) {
  return !result.values.at(name).sameBits(HostTensor::of<float>(Shape{2}, {2, 3}));
}

TEST(OnnxRoles, AllFloatsAreTrainedUnlessSomebodySaysOtherwise) {
  const Trained result = trained({});
  EXPECT_TRUE(hasChanged(result, "first_bias"));
  EXPECT_TRUE(hasChanged(result, "shift"));
  EXPECT_TRUE(hasChanged(result, "last_scale"));
}

TEST(OnnxRoles, FrozenWeightsAreWeightsThatStayAsTheyAre) {
  const Trained result = trained({.frozen = {"first_*"}});
  EXPECT_FALSE(hasChanged(result, "first_bias"));
  EXPECT_TRUE(hasChanged(result, "shift"));
  EXPECT_TRUE(hasChanged(result, "last_scale"));
  EXPECT_THAT(result.weights, ElementsAre("first_bias", "shift", "last_scale"));
}

TEST(OnnxRoles, BuffersAreNoWeights) {
  const Trained result = trained({.buffers = {"shift"}});
  EXPECT_TRUE(hasChanged(result, "first_bias"));
  EXPECT_FALSE(hasChanged(result, "shift"));
  EXPECT_THAT(result.weights, ElementsAre("first_bias", "last_scale"));
}

TEST(OnnxRoles, ANameThatNoInitializerHasIsRefused) {
  EXPECT_THAT(messageOf([] { trained({.frozen = {"second_*"}}); }),
              HasSubstr("ImportOptions::frozen: the model has no initializer 'second_*'"));
  EXPECT_THAT(messageOf([] { trained({.buffers = {"x"}}); }),
              HasSubstr("ImportOptions::buffers: the model has no initializer 'x'"));
}

}  // namespace
}  // namespace sluice
