// Every rule against numbers worked out by hand and against a plain loop in double.
#include <cmath>
#include <functional>

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

constexpr double kGradients[] = {0.5, 0.25, -0.1};

struct Precision {
  DType dtype;
  double tolerance;
};
constexpr Precision kPrecisions[] = {{DType::F64, 1e-9}, {DType::F32, 1e-5}};

/// Runs the three steps of the oracles with w = 1 in both types.
void expectWeights(const Optimizer& optimizer, const std::vector<double>& expected) {
  for (const auto& [dtype, tolerance] : kPrecisions) {
    Trainer trainer(optimizer, {{"w", one(dtype, 1.0)}});
    for (std::size_t i = 0; i < expected.size(); ++i) {
      trainer.step(optimizer, {{"w", one(dtype, kGradients[i])}});
      EXPECT_NEAR(trainer.value("w"), expected[i], tolerance) << name(dtype) << " step " << i;
    }
  }
}

/// Ten steps with other gradients, also against a loop in double: w and g to the next w.
void expectFollows(const Optimizer& optimizer, const std::function<double(double, double)>& rule) {
  Trainer exact(optimizer, {{"w", one(DType::F64, 1.0)}});
  Trainer single(optimizer, {{"w", one(DType::F32, 1.0)}});
  double w = 1.0;
  for (int i = 1; i <= 10; ++i) {
    const double g = std::sin(2.0 * i) * 0.75;
    exact.step(optimizer, {{"w", one(DType::F64, g)}});
    single.step(optimizer, {{"w", one(DType::F32, g)}});
    w = rule(w, g);
    EXPECT_NEAR(exact.value("w"), w, 1e-9) << optimizer.name() << " step " << i;
    EXPECT_NEAR(single.value("w"), w, 1e-5) << optimizer.name() << " step " << i;
  }
}

constexpr SgdOptions kRuleMomentum{
    .lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weightDecay = 0.01};

SgdOptions with(SgdOptions options, const std::function<void(SgdOptions&)>& change) {
  change(options);
  return options;
}

TEST(Sgd, FollowsTheRuleWithMomentum) {
  expectWeights(SGD(kRuleMomentum), {0.9541, 0.88943131, 0.839429000821});
}

TEST(Sgd, KeepsTheVelocityAsState) {
  const SGD sgd(kRuleMomentum);
  Trainer trainer(sgd, {{"w", one(DType::F64, 1.0)}});
  const double expected[] = {0.459, 0.6466869, 0.50002309179};
  for (std::size_t i = 0; i < 3; ++i) {
    trainer.step(sgd, {{"w", one(DType::F64, kGradients[i])}});
    EXPECT_NEAR(trainer.value("w.momentum_buffer"), expected[i], 1e-9);
  }
  EXPECT_EQ(trainer.graph().findVariable("w.momentum_buffer")->role,
            ir::VariableRole::OptimizerState);
}

TEST(Sgd, FollowsTheRuleWithNesterov) {
  expectWeights(SGD(with(kRuleMomentum, [](SgdOptions& o) { o.nesterov = true; })),
                {0.90769, 0.8236180811, 0.787879526363209});
}

TEST(Sgd, FollowsPyTorchsRuleWhereAsked) {
  // The first step is not dampened.
  expectWeights(SGD(with(kRuleMomentum, [](SgdOptions& o) { o.torchCompatible = true; })),
                {0.949, 0.8797459, 0.82562543869});
}

TEST(Sgd, WithoutMomentumHasNoStateAndStillDampensAndDecays) {
  const SGD sgd(SgdOptions{.lr = 0.1, .dampening = 0.1, .weightDecay = 0.01});
  const Trainer trainer(sgd, {{"w", one(DType::F64, 1.0)}});
  EXPECT_FALSE(trainer.has("w.momentum_buffer"));
  expectFollows(sgd, [](double w, double g) { return w * (1 - 0.1 * 0.9 * 0.01) - g * 0.1 * 0.9; });
  const SGD torch(SgdOptions{.lr = 0.1, .dampening = 0.1, .torchCompatible = true});
  expectFollows(torch, [](double w, double g) { return w - g * 0.1; });
}

TEST(Sgd, CombinedHasTheValuesOfSeparate) {
  const SGD combined(with(kRuleMomentum, [](SgdOptions& o) {
    o.useCombinedAccum = true;
    o.velocityScaling = 8;
  }));
  expectWeights(combined, {0.9541, 0.88943131, 0.839429000821});
  const Trainer trainer(combined, {{"w", one(DType::F16, 1.0)}});
  const ir::Variable* velocity = trainer.graph().findVariable("w.momentum_buffer");
  EXPECT_EQ(velocity->role, ir::VariableRole::Accumulator);
  EXPECT_EQ(velocity->type.dtype, DType::F32);
}

TEST(Sgd, CombinedKeepsInItsVelocityWhatTheNextStepNeeds) {
  // vs 8: the velocity of 4-1, times 8, before momentum and decay are put in.
  const SGD combined(with(kRuleMomentum, [](SgdOptions& o) {
    o.useCombinedAccum = true;
    o.velocityScaling = 8;
  }));
  Trainer trainer(combined, {{"w", one(DType::F64, 1.0)}});
  trainer.step(combined, {{"w", one(DType::F64, 0.5)}});
  EXPECT_NEAR(trainer.value("w.momentum_buffer"), 8 * (0.459 * 0.9 + 0.9 * 0.01 * 0.9541), 1e-12);
}

TEST(Sgd, CombinedHasNoStateOfItsWeightsButTheAccumulator) {
  const SGD combined(with(kRuleMomentum, [](SgdOptions& o) { o.useCombinedAccum = true; }));
  const Trainer trainer(combined, {{"w", one(DType::F32, 1.0)}});
  for (const ir::Variable& variable : trainer.graph().variables()) {
    EXPECT_FALSE(variable.role == ir::VariableRole::OptimizerState &&
                 variable.type.shape.rank() > 0)
        << variable.name;
  }
}

TEST(Sgd, SeparateIgnoresVelocityScaling) {
  expectWeights(SGD(with(kRuleMomentum, [](SgdOptions& o) { o.velocityScaling = 8; })),
                {0.9541, 0.88943131, 0.839429000821});
}

TEST(Sgd, CombinedTakesANewMomentumOneStepLate) {
  // After the first step its momentum is in the velocity already.
  SGD combined(with(kRuleMomentum, [](SgdOptions& o) { o.useCombinedAccum = true; }));
  SGD separate(kRuleMomentum);
  Trainer late(combined, {{"w", one(DType::F64, 1.0)}});
  Trainer prompt(separate, {{"w", one(DType::F64, 1.0)}});
  late.step(combined, {{"w", one(DType::F64, 0.5)}});
  combined.set("momentum", 0.5);
  late.step(combined, {{"w", one(DType::F64, 0.25)}});
  for (const double g : {0.5, 0.25}) {
    prompt.step(separate, {{"w", one(DType::F64, g)}});
  }
  EXPECT_NEAR(late.value("w"), prompt.value("w"), 1e-12);
  separate.set("momentum", 0.5);
  late.step(combined, {{"w", one(DType::F64, -0.1)}});
  prompt.step(separate, {{"w", one(DType::F64, -0.1)}});
  EXPECT_NEAR(late.value("w"), prompt.value("w"), 1e-12);
}

TEST(Sgd, RefusesFormsThatDoNotGoTogether) {
  EXPECT_THAT(messageOf([] { SGD sgd(SgdOptions{.nesterov = true}); }), HasSubstr("nesterov"));
  const auto message = [](const std::function<void(SgdOptions&)>& change) {
    return messageOf([&] {
      const SGD sgd(with(kRuleMomentum, change));
      const Trainer trainer(sgd, {{"w", one(DType::F32, 1.0)}});
    });
  };
  EXPECT_THAT(message([](SgdOptions& o) { o.useCombinedAccum = o.nesterov = true; }),
              HasSubstr("nesterov needs the separate form"));
  EXPECT_THAT(message([](SgdOptions& o) { o.useCombinedAccum = o.torchCompatible = true; }),
              HasSubstr("torchCompatible needs the separate form"));
  EXPECT_THAT(message([](SgdOptions& o) { o.nesterov = o.torchCompatible = true; }),
              HasSubstr("no dampening"));
  EXPECT_THAT(message([](SgdOptions& o) {
                o.useCombinedAccum = true;
                o.maxGradNorm = 1;
              }),
              HasSubstr("max_grad_norm needs the separate form"));
}

constexpr AdamOptions kRuleAdam{.lr = 0.01};

TEST(Adam, FollowsTheRule) {
  expectWeights(Adam(kRuleAdam), {0.9900000002, 0.9806782040, 0.9747110939});
}

TEST(Adam, AddsWeightDecayToTheGradient) {
  AdamOptions options = kRuleAdam;
  options.weightDecay = 0.01;
  expectWeights(Adam(options), {0.9900000002, 0.9806504665, 0.9745066644});
}

TEST(Adam, RefusesAmsgrad) {
  EXPECT_THAT(messageOf<Unsupported>([] { Adam adam(AdamOptions{.amsgrad = true}); }),
              HasSubstr("amsgrad"));
}

TEST(AdamW, AddsWeightDecayToTheStep) {
  expectWeights(AdamW(kRuleAdam), {0.9899000002, 0.9804792140, 0.9744140559});
}

TEST(AdamW, CanLeaveOutTheBiasCorrection) {
  AdamOptions options = kRuleAdam;
  options.biasCorrection = false;
  expectWeights(AdamW(options), {0.9682772434, 0.9285666096, 0.8989351688});
}

TEST(AdamW, CountsItsStepsOnceForAllWeights) {
  const AdamW adam(kRuleAdam);
  Trainer trainer(adam, {{"a", one(DType::F32, 1.0)}, {"b", one(DType::F32, 2.0)}});
  for (int i = 0; i < 3; ++i) {
    trainer.step(adam, {{"a", one(DType::F32, 0.1)}, {"b", one(DType::F32, 0.1)}});
  }
  EXPECT_EQ(trainer.value("optimizer.step"), 3.0);
  EXPECT_TRUE(trainer.has("a.exp_avg") && trainer.has("b.exp_avg_sq"));
}

TEST(AdamW, StaysAccurateInFloat32AfterManySteps) {
  // A straightforward loop in double; beta2^t is close to 1 for a long time.
  const AdamW adam(AdamOptions{.lr = 0.01});
  Trainer trainer(adam, {{"w", one(DType::F32, 1.0)}});
  double w = 1.0;
  double m = 0.0;
  double v = 0.0;
  for (int t = 1; t <= 50; ++t) {
    const double g = std::sin(static_cast<double>(t));
    trainer.step(adam, {{"w", one(DType::F32, g)}});
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double x =
        (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
    w -= 0.01 * (x + 0.01 * w);
  }
  EXPECT_NEAR(trainer.value("w"), w, 3e-6);
}

HostTensor twoOf(DType dtype, double a, double b) {
  HostTensor tensor(dtype, Shape{2});
  tensor.set(0, a);
  tensor.set(1, b);
  return tensor;
}

/// The steps of oracle 4-4.
void expectLamb(const Optimizer& lamb, const std::vector<std::pair<double, double>>& expected) {
  const std::pair<double, double> gradients[] = {{0.5, -0.25}, {0.1, 0.2}};
  for (const auto& [dtype, tolerance] : kPrecisions) {
    Trainer trainer(lamb, {{"w", twoOf(dtype, 1, 2)}});
    for (std::size_t i = 0; i < expected.size(); ++i) {
      trainer.step(lamb, {{"w", twoOf(dtype, gradients[i].first, gradients[i].second)}});
      EXPECT_NEAR(trainer.value("w", 0), expected[i].first, tolerance) << name(dtype);
      EXPECT_NEAR(trainer.value("w", 1), expected[i].second, tolerance) << name(dtype);
    }
  }
}

constexpr LambOptions kLamb{.lr = 0.1, .eps = 1e-6};

TEST(Lamb, ScalesTheStepByTheNorms) {
  expectLamb(LAMB(kLamb), {{0.8395205619, 2.1557123949}, {0.6084135826, 2.1661273436}});
}

TEST(Lamb, CanLeaveOutTheBiasCorrection) {
  LambOptions options = kLamb;
  options.biasCorrection = false;
  expectLamb(LAMB(options), {{0.8411316677, 2.1573558165}, {0.6100795797, 2.1725807516}});
}

/// A step of LAMB and one of AdamW from [1, 2], or from zeros, with gradient g.
std::pair<Trainer, Trainer> lambAndAdamW(double maxWeightNorm, double weight, double g) {
  const LAMB lamb(LambOptions{.lr = 0.1, .eps = 1e-6, .maxWeightNorm = maxWeightNorm});
  const AdamW adam(AdamOptions{.lr = 0.1, .eps = 1e-6});
  std::pair<Trainer, Trainer> both(Trainer(lamb, {{"w", twoOf(DType::F64, weight, 2 * weight)}}),
                                   Trainer(adam, {{"w", twoOf(DType::F64, weight, 2 * weight)}}));
  both.first.step(lamb, {{"w", twoOf(DType::F64, g, -g)}});
  both.second.step(adam, {{"w", twoOf(DType::F64, g, -g)}});
  return both;
}

TEST(Lamb, WithoutANormTakesTheStepOfAdamW) {
  for (const auto& [maximum, weight, g] :
       {std::tuple(0.0, 1.0, 0.5), std::tuple(65500.0, 0.0, 0.5), std::tuple(65500.0, 0.0, 0.0)}) {
    const auto [lamb, adam] = lambAndAdamW(maximum, weight, g);
    EXPECT_EQ(lamb.value("w", 0), adam.value("w", 0)) << maximum << " " << weight << " " << g;
    EXPECT_EQ(lamb.value("w", 1), adam.value("w", 1)) << maximum << " " << weight << " " << g;
  }
}

TEST(Lamb, LimitsTheNormOfTheWeights) {
  // Steps are proportional to min(|w|, maximum): |w| is sqrt(5).
  const auto step = [](double maximum) {
    return 1.0 - lambAndAdamW(maximum, 1.0, 0.5).first.value("w", 0);
  };
  EXPECT_NEAR(step(1.0), step(65500) / std::sqrt(5.0), 1e-12);
  EXPECT_NEAR(step(0.25), step(1.0) / 4, 1e-12);
}

constexpr RmsPropOptions kRmsProp{.lr = 0.01};

RmsPropOptions with(RmsPropOptions options, const std::function<void(RmsPropOptions&)>& change) {
  change(options);
  return options;
}

TEST(RmsProp, FollowsTheRule) {
  expectWeights(RMSprop(kRmsProp), {0.90000002, 0.8550987026, 0.8728626223});
  const Trainer trainer(RMSprop(kRmsProp), {{"w", one(DType::F32, 1.0)}});
  EXPECT_FALSE(trainer.has("w.momentum_buffer") || trainer.has("w.grad_avg"));
}

TEST(RmsProp, FollowsTheRuleWithMomentum) {
  expectWeights(RMSprop(with(kRmsProp, [](RmsPropOptions& o) { o.momentum = 0.9; })),
                {0.90000002, 0.7650987206, 0.6614514708});
}

TEST(RmsProp, FollowsTheRuleCentred) {
  expectWeights(RMSprop(with(kRmsProp, [](RmsPropOptions& o) { o.centered = true; })),
                {0.8994962387, 0.8541874847, 0.8720664362});
}

TEST(RmsProp, FollowsTensorFlowsVariant) {
  const auto tf = [](RmsPropOptions& o) { o.useTfVariant = true; };
  expectWeights(RMSprop(with(kRmsProp, tf)), {0.9949811439, 0.9924598755, 0.9934734115});
  expectWeights(RMSprop(with(with(kRmsProp, tf), [](RmsPropOptions& o) { o.momentum = 0.9; })),
                {0.9949811439, 0.9879429050, 0.9826220260});
}

TEST(RmsProp, OfTensorFlowDiffersAfterFiveSteps) {
  const RMSprop plain(kRmsProp);
  const RMSprop tf(with(kRmsProp, [](RmsPropOptions& o) { o.useTfVariant = true; }));
  Trainer a(plain, {{"w", one(DType::F64, 1.0)}});
  Trainer b(tf, {{"w", one(DType::F64, 1.0)}});
  for (int i = 0; i < 5; ++i) {
    a.step(plain, {{"w", one(DType::F64, 0.3)}});
    b.step(tf, {{"w", one(DType::F64, 0.3)}});
  }
  EXPECT_GT(std::abs(a.value("w") - b.value("w")), 1e-3);
}

TEST(Rules, EqualAPlainLoopForTenSteps) {
  double v = 0;
  expectFollows(SGD(kRuleMomentum), [&](double w, double g) {
    v = 0.9 * v + 0.9 * (g + 0.01 * w);
    return w - 0.1 * v;
  });
  double u = 0;
  const auto combined = [](SgdOptions& o) {
    o.useCombinedAccum = true;
    o.velocityScaling = 4;
  };
  expectFollows(SGD(with(kRuleMomentum, combined)), [&](double w, double g) {
    u = 0.9 * u + 0.9 * (g + 0.01 * w);
    return w - 0.1 * u;
  });
  double m1 = 0;
  double m2 = 0;
  int t = 0;
  expectFollows(Adam(AdamOptions{.lr = 0.02, .beta1 = 0.8, .beta2 = 0.9, .weightDecay = 0.1}),
                [&](double w, double g) {
                  const double s = g + 0.1 * w;
                  m1 = 0.8 * m1 + 0.2 * s;
                  m2 = 0.9 * m2 + 0.1 * s * s;
                  ++t;
                  return w - 0.02 * (m1 / (1 - std::pow(0.8, t))) /
                                 (std::sqrt(m2 / (1 - std::pow(0.9, t))) + 1e-8);
                });
  double a1 = 0;
  double a2 = 0;
  expectFollows(LAMB(LambOptions{.lr = 0.02, .biasCorrection = false, .maxWeightNorm = 0.5}),
                [&](double w, double g) {
                  a1 = 0.9 * a1 + 0.1 * g;
                  a2 = 0.999 * a2 + 0.001 * g * g;
                  const double x = a1 / (std::sqrt(a2) + 1e-8) + 0.01 * w;
                  return w - 0.02 * std::min(std::abs(w), 0.5) / std::abs(x) * x;
                });
}

TEST(Rules, OfRmsPropEqualAPlainLoopForTenSteps) {
  for (const bool tf : {false, true}) {
    double v1 = tf ? 1.0 : 0.0;
    double v2 = 0;
    double v3 = 0;
    const RmsPropOptions options{.lr = 0.02,
                                 .alpha = 0.9,
                                 .eps = 1e-3,
                                 .weightDecay = 0.1,
                                 .momentum = 0.5,
                                 .centered = true,
                                 .useTfVariant = tf};
    expectFollows(RMSprop(options), [&](double w, double g) {
      const double s = g + 0.1 * w;
      v1 = 0.9 * v1 + 0.1 * s * s;
      v2 = 0.9 * v2 + 0.1 * s;
      const double d = v1 - v2 * v2;
      const double x = tf ? s / std::sqrt(d + 1e-3) : s / (std::sqrt(d) + 1e-3);
      v3 = 0.5 * v3 + (tf ? 0.02 * x : x);
      return w - (tf ? v3 : 0.02 * v3);
    });
  }
}

TEST(Rules, KeepTheirStateInTheTypesGiven) {
  const auto typesOf = [](const Optimizer& optimizer, const std::vector<std::string>& states) {
    const Trainer trainer(optimizer, {{"w", one(DType::F32, 1.0)}});
    std::vector<DType> types;
    for (const std::string& state : states) {
      types.push_back(trainer.graph().findVariable("w." + state)->type.dtype);
    }
    return types;
  };
  using Types = std::vector<DType>;
  EXPECT_EQ(typesOf(SGD(SgdOptions{.momentum = 0.9, .velocityAccumType = DType::F16}),
                    {"momentum_buffer"}),
            Types{DType::F16});
  EXPECT_EQ(typesOf(AdamW(AdamOptions{.firstOrderMomentumAccumType = DType::F16}),
                    {"exp_avg", "exp_avg_sq"}),
            (Types{DType::F16, DType::F32}));
  EXPECT_EQ(typesOf(LAMB(LambOptions{.secondOrderMomentumAccumType = DType::F16}),
                    {"exp_avg", "exp_avg_sq"}),
            (Types{DType::F32, DType::F16}));
  EXPECT_EQ(
      typesOf(RMSprop(RmsPropOptions{
                  .momentum = 0.5, .centered = true, .firstOrderMomentumAccumType = DType::F16}),
              {"square_avg", "grad_avg", "momentum_buffer"}),
      (Types{DType::F32, DType::F16, DType::F16}));
}

TEST(Rules, RoundTheirStateToItsType) {
  // A velocity of 0.1 in float16 is 0.0999755859375; the weight is updated with what came before.
  const SGD sgd(SgdOptions{.lr = 1, .momentum = 0.5, .velocityAccumType = DType::F16});
  Trainer trainer(sgd, {{"w", one(DType::F64, 1.0)}});
  trainer.step(sgd, {{"w", one(DType::F64, 0.1)}});
  EXPECT_EQ(trainer.value("w.momentum_buffer"), 0.0999755859375);
  EXPECT_NEAR(trainer.value("w"), 0.9, 1e-12);
  trainer.step(sgd, {{"w", one(DType::F64, 0.0)}});
  EXPECT_NEAR(trainer.value("w"), 0.9 - 0.0999755859375 / 2, 1e-12);
}

TEST(Rules, RefuseStateInOtherTypes) {
  EXPECT_THAT(messageOf([] { SGD sgd(SgdOptions{.velocityAccumType = DType::BF16}); }),
              HasSubstr("velocity_accum_type is bf16"));
  EXPECT_THAT(messageOf([] { SGD sgd(SgdOptions{.accumType = DType::F64}); }),
              HasSubstr("accum_type is f64"));
  EXPECT_THAT(messageOf([] { AdamW a(AdamOptions{.firstOrderMomentumAccumType = DType::I32}); }),
              HasSubstr("first_order_momentum_accum_type is i32"));
  EXPECT_THAT(
      messageOf([] { RMSprop r(RmsPropOptions{.secondOrderMomentumAccumType = DType::BF16}); }),
      HasSubstr("second_order_momentum_accum_type is bf16"));
}

}  // namespace
}  // namespace sluice::optim
