// Optimizers in a model: how gradients come together before the rule, loss scaling, attributes that
// change during training, types of accumulators.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/support/message_of.h"
#include "tests/support/random_tensor.h"

namespace sluice {
namespace {

using optim::SGD;
using optim::SgdOptions;
using parallel::PipelinedExecution;
using parallel::Stage;
using testing::Bits;
using ::testing::HasSubstr;
using testing::makeInputs;
using testing::messageOf;
using testing::Mlp;
using testing::trainWith;

/// One weight of 1 whose gradient is the input of the micro-batch.
class RuledWeight {
 public:
  RuledWeight(const optim::Optimizer& optimizer, const Options& options, DType dtype = DType::F64)
      : type_(dtype), model_(make(optimizer, options)) {}

  /// One call with these gradients, a row for each micro-batch and replica.
  void call(const std::vector<double>& gradients) {
    HostTensor x(type_, Shape{static_cast<std::int64_t>(gradients.size())});
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      x.set(static_cast<std::int64_t>(i), gradients[i]);
    }
    model_.run({x});
  }
  double operator()(std::string_view variable = "w") {
    return model_.session().read(variable).at(0);
  }
  Model& model() { return model_; }

 private:
  Model make(const optim::Optimizer& optimizer, const Options& options) {
    const TensorId x = builder_.addInputTensor({type_, Shape{1}}, "x");
    const TensorId w =
        builder_.addInitializedInputTensor(HostTensor::full({type_, Shape{1}}, 1), "w");
    const TensorId loss = builder_.aiGraphcore().identityloss(builder_.aiOnnx().mul(x, w));
    return trainingModel(builder_, loss, options, optimizer);
  }

  DType type_;
  Builder builder_;
  Model model_;
};

Options accumulating(std::int64_t count, int replicas = 1, Reduction reduction = Reduction::Mean) {
  Options options;
  options.replicationFactor(replicas);
  options.training.gradientAccumulation(count).accumulationReduction(reduction);
  return options;
}

constexpr SgdOptions kScaled{
    .lr = 0.1, .momentum = 0.9, .weightDecay = 0.01, .velocityScaling = 8, .lossScaling = 1024};

SgdOptions combined(SgdOptions options) {
  options.useCombinedAccum = true;
  return options;
}

TEST(Sgd, CombinedAndSeparateAccumulateToTheSameWeights) {
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::F64, 1e-9), std::pair(DType::F32, 1e-5)}) {
    RuledWeight one(SGD(combined(kScaled)), accumulating(2), dtype);
    RuledWeight two(SGD(kScaled), accumulating(2), dtype);
    const double weights[] = {0.9615, 0.9158885};
    const double velocities[] = {0.385, 0.456115};  // over 8, before momentum and decay
    const std::vector<double> gradients[] = {{0.5, 0.25}, {-0.1, 0.3}};
    for (std::size_t i = 0; i < 2; ++i) {
      one.call(gradients[i]);
      two.call(gradients[i]);
      EXPECT_NEAR(one(), weights[i], tolerance);
      EXPECT_NEAR(two(), weights[i], tolerance);
      EXPECT_NEAR(two("w.momentum_buffer"), velocities[i], tolerance);
      EXPECT_NEAR(
          one("w.momentum_buffer"), 8 * (velocities[i] * 0.9 + 0.01 * weights[i]), 8 * tolerance);
    }
    EXPECT_FALSE(one.model().session().contains("w.accumulator"));
    EXPECT_TRUE(two.model().session().contains("w.accumulator"));
  }
}

TEST(Sgd, CombinedEqualsSeparateUnderEveryReduction) {
  for (const int replicas : {1, 2}) {
    for (const int count : {1, 3}) {
      for (const auto reduction : {Reduction::Mean, Reduction::Sum}) {
        for (const auto strategy : {MeanReductionStrategy::Post,
                                    MeanReductionStrategy::Running,
                                    MeanReductionStrategy::PostAndLoss}) {
          Options options = accumulating(count, replicas, reduction);
          options.training.setMeanAccumulationAndReplicationReductionStrategy(strategy);
          SgdOptions sgd = kScaled;
          sgd.dampening = 0.1;
          RuledWeight one(SGD(combined(sgd)), options.clone());
          RuledWeight two(SGD(sgd), options.clone());
          for (int call = 0; call < 4; ++call) {
            std::vector<double> gradients;
            for (int i = 0; i < count * replicas; ++i) {
              gradients.push_back(std::sin(7.0 * call + i));
            }
            one.call(gradients);
            two.call(gradients);
            EXPECT_NEAR(one(), two(), 1e-12) << options.str() << " call " << call;
          }
        }
      }
    }
  }
}

TEST(Sgd, CombinedWithoutMomentumIsThePlainRule) {
  RuledWeight plain(SGD(combined({.lr = 0.1})), accumulating(2));
  plain.call({0.5, 0.25});
  EXPECT_NEAR(plain(), 1 - 0.1 * 0.375, 1e-12);
  EXPECT_FALSE(plain.model().session().contains("w.momentum_buffer"));
}

template <class Rule, class RuleOptions>
void expectSameWeightsWhenScaled(RuleOptions options, double scale, double tolerance) {
  const auto weightsWith = [&](double lossScaling) {
    Mlp net;
    options.lossScaling = lossScaling;
    auto model = trainingModel(net, accumulating(2), Rule(options));
    for (int i = 0; i < 5; ++i) {
      model.run(makeInputs(Mlp::inputs(), i, 2));
    }
    std::vector<HostTensor> weights;
    for (const nn::Parameter* parameter : net.parameters()) {
      weights.push_back(parameter->value());
    }
    return weights;
  };
  const std::vector<HostTensor> plain = weightsWith(1);
  const std::vector<HostTensor> scaled = weightsWith(scale);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_LE(testing::relativeDifference(plain[i], scaled[i]), tolerance) << i;
  }
}

TEST(LossScaling, ByAPowerOfTwoChangesNoBit) {
  expectSameWeightsWhenScaled<SGD>(SgdOptions{.lr = 0.1}, 1024, 0);
  expectSameWeightsWhenScaled<SGD>(SgdOptions{.lr = 0.1, .momentum = 0.9}, 1024, 0);
  expectSameWeightsWhenScaled<SGD>(
      combined(SgdOptions{.lr = 0.1, .momentum = 0.9, .weightDecay = 0.01}), 1024, 0);
  expectSameWeightsWhenScaled<optim::AdamW>(
      optim::AdamOptions{.lr = 0.01, .maxGradNorm = 0.1}, 1024, 0);
  expectSameWeightsWhenScaled<optim::RMSprop>(optim::RmsPropOptions{.lr = 0.01}, 1024, 0);
  expectSameWeightsWhenScaled<optim::LAMB>(optim::LambOptions{.lr = 0.01}, 1024, 0);
}

TEST(LossScaling, ByAnyNumberChangesOnlyRounding) {
  expectSameWeightsWhenScaled<SGD>(SgdOptions{.lr = 0.1, .momentum = 0.9}, 1000, 1e-6);
}

TEST(LossScaling, LeavesTheLossThatIsReturned) {
  Mlp net;
  Mlp twin;
  auto plain = trainingModel(net, Options(), SGD(0.1));
  auto scaled = trainingModel(twin, Options(), SGD(SgdOptions{.lr = 0.1, .lossScaling = 1024}));
  const std::vector<HostTensor> inputs = makeInputs(Mlp::inputs(), 0, 1);
  EXPECT_TRUE(plain.run(inputs).back().sameBits(scaled.run(inputs).back()));
}

TEST(LossScaling, SavesGradientsTooSmallForFloat16) {
  // (x w) c with c = 2^-20 and x = 2^-8: the gradient, 2^-28, is less than any float16.
  const auto weightAfter = [](double lossScaling) {
    Builder b;
    const TensorId x = b.addInputTensor({DType::F16, Shape{1}}, "x");
    const TensorId c = b.addInputTensor({DType::F16, Shape{1}}, "c");
    const TensorId w =
        b.addInitializedInputTensor(HostTensor::full({DType::F16, Shape{1}}, 1), "w");
    const TensorId y = b.aiOnnx().mul(b.aiOnnx().mul(x, w), c);
    const TensorId loss = b.aiGraphcore().identityloss(b.aiOnnx().cast(y, DType::F32));
    auto model = trainingModel(
        b, loss, Options(), SGD(SgdOptions{.lr = std::exp2(27), .lossScaling = lossScaling}));
    model.run({HostTensor::full({DType::F16, Shape{1}}, std::exp2(-8)),
               HostTensor::full({DType::F16, Shape{1}}, std::exp2(-20))});
    return model.session().read("w").at(0);
  };
  EXPECT_EQ(weightAfter(1), 1.0);
  EXPECT_EQ(weightAfter(1024), 0.5);
}

TEST(LossScaling, ThatFloat16DoesNotHoldIsRefusedForSuchALoss) {
  RuledWeight half(SGD(SgdOptions{.lossScaling = 1e6}), Options(), DType::F16);
  EXPECT_THAT(messageOf([&] { half.call({1}); }), HasSubstr("loss_scaling of 1000000"));
}

TEST(Attributes, ThatAreVariableTakeEffectAtTheNextCallAfterSetOptimizer) {
  SGD sgd(SgdOptions{.lr = 0.5, .momentum = 0.5});
  RuledWeight w(sgd, Options());
  w.call({0.5});
  EXPECT_EQ(w(), 0.75);
  sgd.setLr(0.25);
  sgd.set("momentum", 0.0);
  w.call({0.0});  // still the velocity of 0.5, halved, times 0.5
  EXPECT_EQ(w(), 0.625);
  w.model().setOptimizer(sgd);
  w.call({0.5});
  EXPECT_EQ(w(), 0.5);
}

TEST(Attributes, ThatAreConstantCannotChangeOnceCompiled) {
  SGD sgd(SgdOptions{.lr = 0.5, .momentum = 0.5});
  sgd.markAsConstant("momentum");
  RuledWeight w(sgd, Options());
  sgd.set("momentum", 0.25);
  w.model().setOptimizer(sgd);  // not compiled yet
  w.call({0.5});
  EXPECT_FALSE(w.model().session().contains("optimizer.momentum"));
  sgd.set("momentum", 0.75);
  EXPECT_THAT(messageOf([&] { w.model().setOptimizer(sgd); }),
              HasSubstr("momentum of group 0 is constant"));
  EXPECT_THAT(messageOf([&] { w.model().setOptimizer(SGD(0.5)); }),
              HasSubstr("momentum of group 0 is constant"));
  w.call({0.0});  // a velocity of 0.5 times 0.25
  EXPECT_EQ(w(), 0.75 - 0.0625);
  // The mark stays with the model, whatever the next optimizer has.
  SGD same(SgdOptions{.lr = 0.0, .momentum = 0.25});
  w.model().setOptimizer(same);
  same.set("momentum", 0.5);
  EXPECT_THROW(w.model().setOptimizer(same), InvalidArgument);
}

TEST(Attributes, OfGroupsStayWithTheirWeights) {
  SGD sgd(0.5);
  sgd.addGroup(optim::named({"w"}), {{"lr", 0.25}});
  RuledWeight w(sgd, Options());
  w.call({1});
  EXPECT_EQ(w(), 0.75);
  sgd.setLr(0.5, 1);
  w.model().setOptimizer(sgd);
  w.call({1});
  EXPECT_EQ(w(), 0.25);
  SGD other(0.5);
  other.addGroup(optim::named({"v"}), {{"lr", 0.25}});
  EXPECT_THAT(messageOf([&] { w.model().setOptimizer(other); }),
              HasSubstr("'w' is in group 1 of the optimizer that the model was compiled with"));
}

TEST(Attributes, OfALossScalingCanChangeDuringTraining) {
  SGD sgd(SgdOptions{.lr = 0.5, .lossScaling = 2});
  RuledWeight w(sgd, Options());
  w.call({0.5});
  sgd.set("loss_scaling", 1.0);
  w.model().setOptimizer(sgd);
  w.call({0.5});
  EXPECT_EQ(w(), 0.5);
}

TEST(AccumulationType, IsTheOneGiven) {
  // 2048 + 1 is 2048 in float16 and 2049 in float32, twice; the mean is taken of the sum.
  const auto weightAfter = [](const optim::Optimizer& optimizer) {
    Options options = accumulating(4);
    options.training.setMeanAccumulationAndReplicationReductionStrategy(
        MeanReductionStrategy::Post);
    RuledWeight w(optimizer, options, DType::F32);
    w.call({2048, 1, 1, 2});
    return w();
  };
  EXPECT_EQ(weightAfter(SGD(SgdOptions{.lr = 1})), 1 - 2052.0 / 4);
  EXPECT_EQ(weightAfter(SGD(SgdOptions{.lr = 1, .accumType = DType::F16})), 1 - 2050.0 / 4);
}

TEST(AccumulationType, OfFloat16WithAVelocityInFloat32IsCastUp) {
  RuledWeight w(SGD(SgdOptions{.lr = 1, .momentum = 0.5, .accumType = DType::F16}),
                accumulating(2),
                DType::F32);
  w.call({0.1, 0.1});
  const double mean = 0.0999755859375;  // in float16
  EXPECT_EQ(w("w.accumulator"), mean);
  EXPECT_EQ(w("w.momentum_buffer"), mean);
  EXPECT_EQ(w.model().session().read("w.momentum_buffer").dtype(), DType::F32);
}

TEST(AccumulationType, OtherThanTheWeightsIsRefusedUnlessTheOptimizerCasts) {
  SGD plain(0.5);
  plain.setAccumulationType([](const ir::Variable&) { return std::optional(DType::F32); });
  RuledWeight refused(plain, accumulating(2), DType::F16);
  EXPECT_THAT(messageOf([&] { refused.call({1, 2}); }), HasSubstr("type mismatch"));
  SGD casting = plain;
  casting.castGradients();
  RuledWeight works(casting, accumulating(2), DType::F16);
  works.call({2049, 1});  // 2048 in float16, the mean 1024.5
  EXPECT_EQ(works.model().session().read("w.accumulator").dtype(), DType::F32);
  EXPECT_EQ(works(), 1 - 512.25);
}

TEST(GradientClipping, UnderAPipelineHasTheBitsOfOneDevice) {
  // Equality with scaling by the global norm, then the step, is a test of the rules; here the norm
  // joins gradients of two devices.
  const auto run = [](const optim::Optimizer& optimizer, bool pipelined) {
    Options options = accumulating(4);
    options.setExecutionStrategy(
        pipelined ? PipelinedExecution({Stage("b0", "b1"), Stage("b2", "b3", "b4")})
                  : PipelinedExecution({Stage("b0", "b1", "b2", "b3", "b4")}));
    return trainWith<testing::ResidualMlp>(optimizer, options, 4);
  };
  std::vector<std::unique_ptr<optim::Optimizer>> rules;
  rules.push_back(std::make_unique<SGD>(0.1));
  rules.push_back(std::make_unique<optim::Adam>(0.01));
  rules.push_back(std::make_unique<optim::AdamW>(0.01));
  for (const auto& rule : rules) {
    const Bits unclipped = run(*rule, false);
    rule->setMaxGradNorm(0.001);
    EXPECT_EQ(run(*rule, true), run(*rule, false)) << rule->name();
    EXPECT_NE(run(*rule, true), unclipped) << rule->name();
  }
}

}  // namespace
}  // namespace sluice
