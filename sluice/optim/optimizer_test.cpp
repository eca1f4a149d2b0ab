#include "sluice/optim/optimizer.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/optim/optimizers.h"
#include "sluice/optim/update_context.h"
#include "tests/support/message_of.h"
#include "tests/support/update_trainer.h"

namespace sluice::optim {
namespace {

using sluice::testing::messageOf;
using sluice::testing::one;
using Trainer = sluice::testing::UpdateTrainer;
using ::testing::HasSubstr;

constexpr SgdOptions kMomentum{.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weightDecay = 0.01};
constexpr AdamOptions kAdam{.lr = 0.01};

TEST(Optimizer, ALearningRateChangesWithoutChangingTheGraph) {
  SGD sgd(0.1);
  Trainer trainer(sgd, {{"w", one(DType::F64, 1.0)}});
  trainer.step(sgd, {{"w", one(DType::F64, 0.5)}});
  EXPECT_NEAR(trainer.value("w"), 0.95, 1e-12);
  sgd.setLr(0.2);
  trainer.step(sgd, {{"w", one(DType::F64, 0.5)}});
  EXPECT_NEAR(trainer.value("w"), 0.85, 1e-12);
  trainer.step(sgd, {{"w", one(DType::F64, 0.5)}}, 0.1);
  EXPECT_NEAR(trainer.value("w"), 0.84, 1e-12);
  const Trainer other(sgd, {{"w", one(DType::F64, 1.0)}});
  EXPECT_TRUE(ir::structurallyEqual(trainer.graph(), other.graph()));
}

TEST(Optimizer, GroupsHaveTheirOwnHyperParameters) {
  AdamW adam(AdamOptions{.lr = 0.01, .weightDecay = 0.5});
  EXPECT_EQ(adam.addGroup(endingWith(".bias"), {{"lr", 0.02}, {"weight_decay", 0.0}}), 1U);
  EXPECT_EQ(adam.addGroup(named({"c"}), {{"lr", 0.0}}), 2U);
  EXPECT_EQ(adam.groupOf("a.bias"), 1U);
  Trainer trainer(adam,
                  {{"a.weight", one(DType::F64, 1.0)},
                   {"a.bias", one(DType::F64, 1.0)},
                   {"c", one(DType::F64, 1.0)}});
  const HostTensor zero = one(DType::F64, 0.0);
  trainer.step(adam, {{"a.weight", zero}, {"a.bias", one(DType::F64, 3.0)}, {"c", zero}});
  EXPECT_NEAR(trainer.value("a.weight"), 1 - 0.01 * 0.5, 1e-12);
  EXPECT_NEAR(trainer.value("a.bias"), 1 - 0.02, 1e-9);
  EXPECT_EQ(trainer.value("c"), 1.0);
  EXPECT_EQ(adam.scalars(2.0).at("optimizer.group1.lr"), 0.04);
}

TEST(Optimizer, GroupsMayDifferInTheirRule) {
  SGD sgd(0.1);
  sgd.addGroup(named({"b"}), {{"momentum", 0.9}});
  const Trainer trainer(sgd, {{"a", one(DType::F32, 1.0)}, {"b", one(DType::F32, 1.0)}});
  EXPECT_FALSE(trainer.has("a.momentum_buffer"));
  EXPECT_TRUE(trainer.has("b.momentum_buffer"));
}

TEST(Optimizer, FrozenWeightsStayAsTheyAre) {
  AdamW adam(0.1);
  adam.setMaxGradNorm(1.0);
  Trainer trainer(adam, {{"frozen", one(DType::F64, 1.0)}, {"w", one(DType::F64, 1.0)}});
  trainer.step(adam, {{"frozen", one(DType::F64, 100.0)}, {"w", one(DType::F64, 0.5)}});
  EXPECT_EQ(trainer.value("frozen"), 1.0);
  EXPECT_FALSE(trainer.has("frozen.exp_avg"));
  EXPECT_NEAR(trainer.value("w"), 1 - 0.1 * (1 + 0.01), 1e-8);
}

HostTensor pair(double a, double b) {
  return HostTensor::of<double>(Shape{2}, {a, b});
}

void expectClipped(std::unique_ptr<Optimizer> plain, double maximum) {
  const std::unique_ptr<Optimizer> clipping = plain->clone();
  clipping->setMaxGradNorm(maximum);
  const std::vector<std::pair<std::string, HostTensor>> weights = {{"a", pair(1.0, 2.0)},
                                                                   {"b", pair(-1.0, 0.5)}};
  Trainer expected(*plain, {{"a", pair(1.0, 2.0)}, {"b", pair(-1.0, 0.5)}});
  Trainer actual(*clipping, {{"a", pair(1.0, 2.0)}, {"b", pair(-1.0, 0.5)}});
  for (const double s : {1.0, 0.25, -3.0}) {
    // The norm of (2, 4, 4, 8) is 10.
    const double factor = std::min(1.0, maximum / (10.0 * std::abs(s)));
    actual.step(*clipping, {{"a", pair(2 * s, 4 * s)}, {"b", pair(4 * s, 8 * s)}});
    expected.step(
        *plain,
        {{"a", pair(2 * s * factor, 4 * s * factor)}, {"b", pair(4 * s * factor, 8 * s * factor)}});
  }
  for (const auto& [name, value] : weights) {
    EXPECT_NEAR(actual.value(name, 0), expected.value(name, 0), 1e-12) << plain->name();
    EXPECT_NEAR(actual.value(name, 1), expected.value(name, 1), 1e-12) << plain->name();
  }
}

TEST(Optimizer, ClippingEqualsScalingByTheGlobalNormThenTheStep) {
  for (const double maximum : {0.001, 5.0}) {
    expectClipped(std::make_unique<SGD>(0.1), maximum);
    expectClipped(std::make_unique<SGD>(kMomentum), maximum);
    expectClipped(std::make_unique<Adam>(kAdam), maximum);
    expectClipped(std::make_unique<AdamW>(kAdam), maximum);
  }
}

TEST(Optimizer, ClippingLeavesSmallAndZeroGradientsAlone) {
  SGD sgd(1.0);
  sgd.setMaxGradNorm(1.0);
  Trainer trainer(sgd, {{"w", one(DType::F32, 1.0)}});
  trainer.step(sgd, {{"w", one(DType::F32, 0.0)}});
  EXPECT_EQ(trainer.value("w"), 1.0);
  trainer.step(sgd, {{"w", one(DType::F32, 0.125)}});
  EXPECT_EQ(trainer.value("w"), 0.875);
}

TEST(Optimizer, HalfWeightsAreUpdatedInFloat32) {
  const SGD sgd(SgdOptions{.lr = 1.0, .momentum = 0.5});
  Trainer trainer(sgd, {{"w", one(DType::F16, 1.0)}});
  EXPECT_EQ(trainer.graph().findVariable("w.momentum_buffer")->type.dtype, DType::F32);
  trainer.step(sgd, {{"w", one(DType::F16, 0.25)}});
  trainer.step(sgd, {{"w", one(DType::F16, 0.25)}});
  EXPECT_EQ(trainer.value("w"), 1 - 0.25 - 0.375);
}

TEST(Optimizer, UpdatesAreMadeInTheUpdatePassWhereTheGradientIs) {
  ir::Graph graph;
  graph.addVariable({.name = "w", .type = {DType::F32, Shape{1}}, .initializer = {}});
  ir::GraphBuilder b(graph);
  b.place = {.pass = ir::Pass::Backward, .block = graph.blockIndex("B1"), .device = 3};
  const ir::Value g = b.input("g", {DType::F32, Shape{1}});
  b.place = {};
  UpdateContext context(b, {{"w", g}});
  AdamW().expand(context);
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.is(ir::kInput)) {
      continue;
    }
    EXPECT_EQ(op.place.pass, ir::Pass::Update) << op.name;
    const bool perWeight = !op.outputs.empty() && op.outputs[0].shape.rank() == 1;
    EXPECT_TRUE(!perWeight || (op.place.device == 3 && op.place.block == 0)) << op.name;
  }
}

TEST(Optimizer, RefusesValuesOutOfRange) {
  EXPECT_THAT(messageOf([] { SGD sgd(-0.1); }), HasSubstr("lr"));
  EXPECT_THAT(messageOf([] { SGD sgd(std::nan("")); }), HasSubstr("lr"));
  EXPECT_THAT(messageOf([] { AdamW adam(AdamOptions{.beta2 = 1.0}); }), HasSubstr("beta2"));
  EXPECT_THAT(messageOf([] { SGD sgd(SgdOptions{.nesterov = true}); }), HasSubstr("nesterov"));
  EXPECT_THAT(messageOf([] { SGD(0.1).setMaxGradNorm(0.0); }), HasSubstr("max_grad_norm"));
  EXPECT_THAT(messageOf([] { SGD(0.1).set("beta1", 0.9); }), HasSubstr("beta1"));
  EXPECT_THAT(messageOf([] { SGD(0.1).setLr(0.1, 4); }), HasSubstr("group 4"));
  EXPECT_THAT(messageOf([] { SGD(0.1).addGroup({}, {}); }), HasSubstr("filter"));
}

TEST(UpdateContext, RefusesGradientsThatBelongToNoWeight) {
  ir::Graph graph("net");
  graph.addVariable({.name = "w", .type = {DType::F32, Shape{2}}, .initializer = {}});
  graph.addVariable({.name = "mean",
                     .type = {DType::F32, Shape{2}},
                     .role = ir::VariableRole::Buffer,
                     .initializer = {}});
  ir::GraphBuilder b(graph);
  const ir::Value g = b.input("g", {DType::F32, Shape{2}});
  const ir::Value bad = b.input("bad", {DType::F32, Shape{3}});
  EXPECT_THAT(messageOf([&] { UpdateContext(b, {{"v", g}}); }), HasSubstr("'v'"));
  EXPECT_THAT(messageOf([&] { UpdateContext(b, {{"mean", g}}); }), HasSubstr("weight"));
  EXPECT_THAT(messageOf([&] { UpdateContext(b, {{"w", bad}}); }), HasSubstr("[3]"));
}

}  // namespace
}  // namespace sluice::optim
