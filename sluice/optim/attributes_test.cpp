// Attributes of optimizers: groups, what is constant, what may follow a compiled optimizer.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/optim/optimizers.h"
#include "tests/support/message_of.h"
#include "tests/support/update_trainer.h"

namespace sluice::optim {
namespace {

using sluice::testing::messageOf;
using sluice::testing::one;
using ::testing::HasSubstr;
using Trainer = sluice::testing::UpdateTrainer;

TEST(Attributes, OfAGroupThatAreNotGivenAreThoseOfTheFirst) {
  AdamW adam(AdamOptions{.lr = 0.01, .eps = 1e-3, .weightDecay = 0.5});
  adam.addGroup(endingWith(".bias"), {{"weight_decay", 0.0}});
  EXPECT_EQ(adam.get("eps", 1), 1e-3);
  EXPECT_EQ(adam.get("weight_decay", 1), 0.0);
  EXPECT_EQ(adam.get("weight_decay", 0), 0.5);
}

TEST(Attributes, OfTheWholeOptimizerCannotDifferBetweenGroups) {
  LAMB lamb(LambOptions{.maxWeightNorm = 10, .lossScaling = 4});
  EXPECT_THAT(messageOf([&] {
                lamb.addGroup(named({"w"}), {{"loss_scaling", 2.0}});
              }),
              HasSubstr("loss_scaling belongs to the whole optimizer"));
  EXPECT_THAT(messageOf([&] {
                lamb.addGroup(named({"w"}), {{"max_weight_norm", 2.0}});
              }),
              HasSubstr("max_weight_norm belongs to the whole optimizer"));
  lamb.addGroup(named({"w"}), {{"lr", 0.5}});
  EXPECT_EQ(lamb.get("max_weight_norm"), 10);
  EXPECT_THAT(messageOf([&] { lamb.set("max_weight_norm", 2.0, 1); }),
              HasSubstr("the same for all groups"));
  SGD sgd(SgdOptions{.lr = 0.1, .momentum = 0.9, .useCombinedAccum = true});
  EXPECT_NO_THROW(sgd.addGroup(named({"w"}), {{"velocity_scaling", 8.0}}));
}

TEST(Attributes, ThatDoNotExistAreRefusedWithAListOfThoseThatDo) {
  SGD sgd(0.1);
  for (const std::string& message : {messageOf([&] { sgd.markAsConstant("beta1"); }),
                                     messageOf([&] { sgd.markAsVariable("beta1"); }),
                                     messageOf([&] { sgd.isConstant("beta1"); }),
                                     messageOf([&] { sgd.get("beta1"); }),
                                     messageOf([&] { sgd.set("beta1", 0.5); }),
                                     messageOf([&] {
                                       sgd.addGroup(named({}), {{"beta1", 1}});
                                     })}) {
    EXPECT_THAT(message, HasSubstr("SGD has no attribute 'beta1'"));
    EXPECT_THAT(message,
                HasSubstr("dampening, loss_scaling, lr, max_grad_norm, momentum, "
                          "velocity_scaling, weight_decay"));
  }
}

TEST(Attributes, AreVariableUnlessTheirPartOfTheRuleIsLeftOut) {
  const SGD sgd(0.1);
  EXPECT_TRUE(sgd.isConstant("momentum"));
  EXPECT_TRUE(sgd.isConstant("loss_scaling"));
  EXPECT_TRUE(sgd.isConstant("max_grad_norm"));
  EXPECT_FALSE(sgd.isConstant("weight_decay"));
  EXPECT_FALSE(sgd.isConstant("lr"));
  const SGD other(SgdOptions{.momentum = 0.5, .lossScaling = 2, .maxGradNorm = 1});
  EXPECT_FALSE(other.isConstant("momentum") || other.isConstant("loss_scaling") ||
               other.isConstant("max_grad_norm"));
}

TEST(Attributes, AtTheirDefaultsAreConstantByPopTorchsRule) {
  AdamW adam(AdamOptions{.lr = 1e-3, .eps = 1e-8, .weightDecay = 0.01});
  adam.markDefaultsAsConstant();
  for (const char* constant : {"beta1", "beta2", "eps", "weight_decay", "loss_scaling"}) {
    EXPECT_TRUE(adam.isConstant(constant)) << constant;
  }
  EXPECT_FALSE(adam.isConstant("lr"));
  AdamW changed(AdamOptions{.beta1 = 0.5, .eps = 1e-6, .weightDecay = 0.0, .lossScaling = 2});
  changed.markDefaultsAsConstant();
  EXPECT_TRUE(changed.isConstant("beta1"));
  EXPECT_FALSE(changed.isConstant("eps") || changed.isConstant("weight_decay") ||
               changed.isConstant("loss_scaling"));
  SGD sgd(SgdOptions{.momentum = 0.5, .velocityScaling = 2});
  sgd.markDefaultsAsConstant();
  EXPECT_TRUE(sgd.isConstant("dampening") && sgd.isConstant("weight_decay"));
  EXPECT_FALSE(sgd.isConstant("momentum") || sgd.isConstant("velocity_scaling"));
  LAMB lamb(LambOptions{});
  EXPECT_TRUE(lamb.markDefaultsAsConstant().isConstant("max_weight_norm"));
  RMSprop rms(RmsPropOptions{.alpha = 0.5});
  EXPECT_TRUE(rms.markDefaultsAsConstant().isConstant("alpha"));
}

TEST(Attributes, ThatAreConstantArePartOfTheGraph) {
  AdamW adam(0.01);
  adam.markAsConstant("beta1").markAsConstant("weight_decay");
  Trainer trainer(adam, {{"w", one(DType::F64, 1.0)}});
  for (const char* constant : {"beta1", "one_minus_beta1", "log_beta1", "weight_decay"}) {
    EXPECT_FALSE(trainer.has("optimizer." + std::string(constant))) << constant;
  }
  EXPECT_TRUE(trainer.has("optimizer.lr") && trainer.has("optimizer.beta2"));
  trainer.step(adam, {{"w", one(DType::F64, 0.5)}});
  EXPECT_NEAR(trainer.value("w"), 0.9899000002, 1e-9);
}

TEST(Attributes, WhosePartIsLeftOutCanBeMarkedAsVariable) {
  SGD sgd(0.1);
  sgd.markAsVariable("momentum").markAsVariable("max_grad_norm").markAsVariable("loss_scaling");
  Trainer trainer(sgd, {{"w", one(DType::F64, 1.0)}});
  ASSERT_TRUE(trainer.has("w.momentum_buffer"));
  trainer.step(sgd, {{"w", one(DType::F64, 0.5)}});
  EXPECT_NEAR(trainer.value("w"), 0.95, 1e-12);
  sgd.set("momentum", 0.5);
  sgd.setMaxGradNorm(0.25);
  sgd.set("loss_scaling", 2.0);
  trainer.step(sgd, {{"w", one(DType::F64, 2.0)}});  // 1 unscaled, 0.25 clipped
  EXPECT_NEAR(trainer.value("w"), 0.95 - 0.1 * (0.25 + 0.25), 1e-12);
}

TEST(Attributes, TheLearningRateIsNeverConstant) {
  EXPECT_THAT(messageOf([] { SGD(0.1).markAsConstant("lr"); }), HasSubstr("always variable"));
}

TEST(Attributes, OfASuccessorMayDifferWhereTheyAreVariable) {
  SGD first(SgdOptions{.lr = 0.1, .momentum = 0.9});
  first.markAsConstant("weight_decay");
  SGD next(SgdOptions{.lr = 0.2, .momentum = 0.0});
  const std::unique_ptr<Optimizer> successor = first.succeededBy(next);
  EXPECT_EQ(successor->lr(), 0.2);
  EXPECT_EQ(successor->get("momentum"), 0.0);
  EXPECT_FALSE(successor->isConstant("momentum"));
  EXPECT_TRUE(successor->isConstant("weight_decay"));
}

TEST(Attributes, OfASuccessorMustBeTheSameWhereTheyAreConstant) {
  AdamW first(0.1);
  first.markAsConstant("beta1").addGroup(named({"w"}), {{"beta1", 0.8}});
  AdamW next(0.1);
  next.addGroup(named({"w"}), {{"beta1", 0.7}});
  EXPECT_THAT(messageOf([&] { first.succeededBy(next); }),
              HasSubstr("beta1 of group 1 is constant: the model was compiled with 0.8, got 0.7"));
  EXPECT_THAT(messageOf([&] { SGD(0.1).succeededBy(SGD(SgdOptions{.momentum = 0.5})); }),
              HasSubstr("momentum of group 0 is constant"));
  EXPECT_THAT(messageOf([&] { SGD(0.1).succeededBy(SGD(SgdOptions{.lossScaling = 2})); }),
              HasSubstr("loss_scaling of group 0 is constant"));
}

TEST(Attributes, OfASuccessorCannotChangeTheRule) {
  const auto message = [](const Optimizer& a, const Optimizer& b) {
    return messageOf([&] { a.succeededBy(b); });
  };
  const SGD sgd(SgdOptions{.momentum = 0.5});
  EXPECT_THAT(message(sgd, SGD(SgdOptions{.momentum = 0.5, .nesterov = true})),
              HasSubstr("nesterov true"));
  EXPECT_THAT(message(sgd, AdamW(0.1)), HasSubstr("AdamW"));
  EXPECT_THAT(message(Adam(0.1), Adam(AdamOptions{.biasCorrection = false})),
              HasSubstr("bias correction false"));
  EXPECT_THAT(message(RMSprop(0.1), RMSprop(RmsPropOptions{.centered = true})),
              HasSubstr("centered true"));
  EXPECT_THAT(message(sgd, SGD(SgdOptions{.momentum = 0.5, .accumType = DType::F16})),
              HasSubstr("another rule"));
  SGD two(SgdOptions{.momentum = 0.5});
  two.addGroup(named({"w"}), {});
  EXPECT_THAT(message(sgd, two), HasSubstr("2 groups"));
}

TEST(LossScaling, IsTakenOutOfTheGradientBeforeTheRule) {
  const double scale = 1024;
  const auto expectEqual = [&](const Optimizer& plain, const Optimizer& scaled) {
    Trainer a(plain, {{"w", one(DType::F32, 1.0)}});
    Trainer b(scaled, {{"w", one(DType::F32, 1.0)}});
    for (const double g : {0.5, 0.25, -0.1}) {
      a.step(plain, {{"w", one(DType::F32, g)}});
      HostTensor times = one(DType::F32, g);
      times.set(0, times.at(0) * scale);
      b.step(scaled, {{"w", times}});
      EXPECT_EQ(a.value("w"), b.value("w")) << plain.name();
    }
  };
  expectEqual(SGD(SgdOptions{.lr = 0.1}), SGD(SgdOptions{.lr = 0.1, .lossScaling = scale}));
  expectEqual(
      SGD(SgdOptions{.lr = 0.1, .momentum = 0.9, .maxGradNorm = 0.3}),
      SGD(SgdOptions{.lr = 0.1, .momentum = 0.9, .lossScaling = scale, .maxGradNorm = 0.3}));
  expectEqual(
      SGD(SgdOptions{.lr = 0.1, .momentum = 0.9, .useCombinedAccum = true}),
      SGD(SgdOptions{.lr = 0.1, .momentum = 0.9, .useCombinedAccum = true, .lossScaling = scale}));
  expectEqual(AdamW(AdamOptions{.lr = 0.1}), AdamW(AdamOptions{.lr = 0.1, .lossScaling = scale}));
  expectEqual(LAMB(LambOptions{.lr = 0.1}), LAMB(LambOptions{.lr = 0.1, .lossScaling = scale}));
  expectEqual(RMSprop(RmsPropOptions{.lr = 0.1}),
              RMSprop(RmsPropOptions{.lr = 0.1, .lossScaling = scale}));
}

TEST(LossScaling, IsAPositiveNumber) {
  EXPECT_THAT(messageOf([] { SGD sgd(SgdOptions{.lossScaling = 0}); }), HasSubstr("loss_scaling"));
  EXPECT_THAT(messageOf([] { SGD(0.1).set("loss_scaling", -1); }), HasSubstr("loss_scaling"));
  EXPECT_THAT(messageOf([] { SGD(0.1).set("velocity_scaling", 0); }),
              HasSubstr("velocity_scaling"));
  EXPECT_THAT(messageOf([] { RMSprop(0.1).set("alpha", 1.0); }), HasSubstr("alpha"));
  EXPECT_THAT(messageOf([] { LAMB(0.1).set("max_weight_norm", -1.0); }),
              HasSubstr("max_weight_norm"));
}

TEST(AccumulationType, IsFloat32UnlessToldOtherwise) {
  const ir::Variable half{.name = "h", .type = {DType::F16, Shape{1}}, .initializer = {}};
  const ir::Variable full{.name = "d", .type = {DType::F64, Shape{1}}, .initializer = {}};
  EXPECT_EQ(SGD(0.1).accumulatorType(half), DType::F32);
  EXPECT_EQ(SGD(0.1).accumulatorType(full), DType::F64);
  const SGD narrow(SgdOptions{.accumType = DType::F16});
  EXPECT_EQ(narrow.accumulatorType(half), DType::F16);
}

TEST(AccumulationType, ByFunctionMustBeTheWeightsOrCast) {
  const ir::Variable half{.name = "h", .type = {DType::F16, Shape{1}}, .initializer = {}};
  const ir::Variable other{.name = "o", .type = {DType::F16, Shape{1}}, .initializer = {}};
  SGD sgd(0.1);
  sgd.setAccumulationType([](const ir::Variable& weight) {
    return weight.name == "h" ? std::optional(DType::F32) : std::nullopt;
  });
  EXPECT_EQ(sgd.accumulatorType(other), DType::F16);
  EXPECT_THAT(messageOf([&] { sgd.accumulatorType(half); }),
              HasSubstr("type mismatch: the gradient of 'h' is accumulated in f32 and the weight "
                        "is f16"));
  sgd.castGradients();
  EXPECT_EQ(sgd.accumulatorType(half), DType::F32);
  sgd.setAccumulationType([](const ir::Variable&) { return std::optional(DType::I32); });
  EXPECT_THAT(messageOf([&] { sgd.accumulatorType(half); }), HasSubstr("expected a float"));
}

}  // namespace
}  // namespace sluice::optim
