#include "sluice/optim/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/optim/optimizers.h"

namespace sluice::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ir::Variable weight(std::string name, DType dtype = DType::F32, bool trainable = true) {
  return {.name = std::move(name),
          .type = {dtype, Shape{3, 2}},
          .role = ir::VariableRole::Weight,
          .trainable = trainable,
          .initializer = {}};
}

std::vector<std::string> namesOf(const Optimizer& optimizer,
                                 const std::optional<LossScalingOptions>& scaling = {}) {
  const std::vector<ir::Variable> weights = {
      weight("a"), weight("b", DType::F16), weight("frozen", DType::F32, false)};
  std::vector<std::string> names;
  for (const ir::Variable& variable : stateVariables(optimizer, weights, scaling)) {
    names.push_back(variable.name + " " + variable.type.str());
  }
  return names;
}

TEST(OptimizerState, IsListedForEveryRule) {
  EXPECT_THAT(namesOf(SGD(0.1)), IsEmpty());
  EXPECT_THAT(namesOf(SGD({.momentum = 0.9})),
              ElementsAre("a.momentum_buffer f32[3, 2]", "b.momentum_buffer f32[3, 2]"));
  EXPECT_THAT(
      namesOf(SGD({.momentum = 0.9, .useCombinedAccum = true, .accumType = DType::F16})),
      ElementsAre(
          "optimizer.step f32[]", "a.momentum_buffer f16[3, 2]", "b.momentum_buffer f16[3, 2]"));
  EXPECT_THAT(namesOf(AdamW({.firstOrderMomentumAccumType = DType::F16})),
              ElementsAre("optimizer.step f32[]",
                          "a.exp_avg f16[3, 2]",
                          "a.exp_avg_sq f32[3, 2]",
                          "b.exp_avg f16[3, 2]",
                          "b.exp_avg_sq f32[3, 2]"));
  EXPECT_THAT(namesOf(RMSprop({.centered = true})),
              ElementsAre("a.square_avg f32[3, 2]",
                          "a.grad_avg f32[3, 2]",
                          "b.square_avg f32[3, 2]",
                          "b.grad_avg f32[3, 2]"));
}

TEST(OptimizerState, HasTheFactorOfAutomaticLossScaling) {
  EXPECT_THAT(namesOf(SGD(0.1), LossScalingOptions{}),
              ElementsAre("optimizer.loss_scale_factor f32[]"));
  EXPECT_THAT(
      namesOf(SGD(0.1), LossScalingOptions{.updatePeriod = 4}),
      ElementsAre("optimizer.loss_scale_factor f32[]", "optimizer.loss_scale_updates f32[]"));
}

}  // namespace
}  // namespace sluice::optim
