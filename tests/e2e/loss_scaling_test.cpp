// Automatic loss scaling: when the factor doubles and halves, and that no overflow reaches a
// weight.
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::messageOf;

Options automatic(std::int64_t accumulation = 1,
                  int replicas = 1,
                  optim::LossScalingOptions settings = {}) {
  Options options;
  options.replicationFactor(replicas).anchorTensor("gradient", "Gradient___w");
  options.training.gradientAccumulation(accumulation).setAutomaticLossScaling(true, settings);
  return options;
}

HostTensor half(const std::vector<double>& values) {
  HostTensor x(DType::F16, Shape{static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) {
    x.set(static_cast<std::int64_t>(i), values[i]);
  }
  return x;
}

/// One weight of 1, in float16 unless said otherwise, whose gradient is the input times the scale;
/// the loss is a float32.
class Weight {
 public:
  Weight(const optim::Optimizer& optimizer, const Options& options, DType type = DType::F16)
      : type_(type), model_(make(optimizer, options)) {}

  /// One call; returns the loss scaling that the last micro-batch has seen.
  double call(const std::vector<double>& gradients) {
    model_.run({half(gradients)});
    return model_.getAnchoredTensor("gradient").at(0) / gradients.back();
  }
  double operator()(std::string_view variable = "w") {
    return model_.session().read(variable).at(0);
  }
  double factor() { return (*this)("optimizer.loss_scale_factor"); }
  Model& model() { return model_; }

 private:
  Model make(const optim::Optimizer& optimizer, const Options& options) {
    const TensorId x = builder_.addInputTensor({DType::F16, Shape{1}}, "x");
    const TensorId w =
        builder_.addInitializedInputTensor(HostTensor::full({type_, Shape{1}}, 1), "w");
    const TensorId y = builder_.aiOnnx().mul(builder_.aiOnnx().cast(x, type_), w);
    const TensorId wide = builder_.aiOnnx().cast(y, DType::F32);
    return trainingModel(builder_, builder_.aiGraphcore().identityloss(wide), options, optimizer);
  }

  DType type_;
  Builder builder_;
  Model model_;
};

optim::SGD sgd(double lossScaling) {
  return optim::SGD(optim::SgdOptions{.lr = 1.0 / 65536, .lossScaling = lossScaling});
}

TEST(AutomaticLossScaling, DoublesWhileNoGradientIsLarge) {
  for (const auto& [accumulation, replicas] : {std::pair(1, 1), std::pair(3, 1), std::pair(2, 2)}) {
    Weight w(sgd(2), automatic(accumulation, replicas));
    const std::vector<double> gradients(static_cast<std::size_t>(accumulation * replicas), 1.0);
    std::vector<double> seen;
    for (int i = 0; i < 5; ++i) {
      seen.push_back(w.call(gradients));
    }
    EXPECT_THAT(seen, ElementsAre(2, 4, 8, 16, 32));
  }
}

TEST(AutomaticLossScaling, HalvesWhenAnyGradientIsLarge) {
  // 8188 is an eighth of the largest float16. The update itself takes place.
  Weight below(sgd(1), automatic());
  below.call({8184});
  EXPECT_EQ(below.factor(), 2);
  Weight at(sgd(1), automatic());
  at.call({8188});
  EXPECT_EQ(at.factor(), 0.5);
  EXPECT_NEAR(at(), 1 - 8188.0 / 65536, 1e-3);
}

TEST(AutomaticLossScaling, CountsAllMicroBatchesAndReplicas) {
  for (const auto& [accumulation, replicas] : {std::pair(3, 1), std::pair(1, 3), std::pair(3, 2)}) {
    for (int large = 0; large < accumulation * replicas; ++large) {
      Weight w(sgd(1), automatic(accumulation, replicas));
      std::vector<double> gradients(static_cast<std::size_t>(accumulation * replicas), 1.0);
      gradients[static_cast<std::size_t>(large)] = -9000;
      w.call(gradients);
      EXPECT_EQ(w.factor(), 0.5) << accumulation << " " << replicas << " " << large;
    }
  }
}

TEST(AutomaticLossScaling, HasSettings) {
  Weight edge(sgd(1), automatic(1, 1, {.binEdgeLocation = 0.5}));
  edge.call({30000});
  EXPECT_EQ(edge.factor(), 2);
  // One micro-batch of four is large: less than half of what is counted.
  Weight share(sgd(1), automatic(4, 1, {.thresholdUpperCountProportion = 0.5}));
  share.call({9000, 1, 1, 1});
  EXPECT_EQ(share.factor(), 2);
  Weight rarely(sgd(2), automatic(1, 1, {.updatePeriod = 2}));
  std::vector<double> seen;
  for (int i = 0; i < 5; ++i) {
    seen.push_back(rarely.call({1}));
  }
  EXPECT_THAT(seen, ElementsAre(2, 4, 4, 8, 8));
}

TEST(AutomaticLossScaling, LeavesOutAnUpdateThatOverflows) {
  for (const int period : {1, 100}) {
    optim::AdamW adam(optim::AdamOptions{.lr = 0.125, .weightDecay = 0.0, .lossScaling = 2});
    Weight w(adam, automatic(1, 1, {.updatePeriod = period}));
    w.call({30000});  // the first step, of exactly lr; 60000 is large, so the scale falls to 1
    const double before = w();
    EXPECT_NEAR(before, 0.875, 1e-3);
    const double m = w("w.exp_avg");
    for (const double bad : {65504.0,
                             std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
      adam.set("loss_scaling", 2048);
      w.model().setOptimizer(adam);
      const double factor = w.factor();
      w.call({bad});
      EXPECT_EQ(w(), before) << bad;
      EXPECT_EQ(w("w.exp_avg"), m) << bad;
      EXPECT_EQ(w("optimizer.step"), 1) << bad;
      EXPECT_EQ(w.factor(), factor / 2) << bad;
    }
    adam.set("loss_scaling", 2);
    w.model().setOptimizer(adam);
    w.call({10});
    EXPECT_NE(w(), before);
    EXPECT_EQ(w("optimizer.step"), 2);
  }
}

TEST(AutomaticLossScaling, ChangesNoResultButForRounding) {
  const auto weightAfter = [](bool on) {
    Options options;
    options.training.gradientAccumulation(2).setAutomaticLossScaling(on);
    options.anchorTensor("gradient", "Gradient___w");
    Weight w(sgd(2), options);
    for (const double g : {100, -50, 75, 25}) {
      w.call({g, g / 2});
    }
    return w();
  };
  EXPECT_EQ(weightAfter(true), weightAfter(false));
}

TEST(AutomaticLossScaling, MarksTheLossScalingAsVariable) {
  Weight w(sgd(1), automatic());
  EXPECT_FALSE(w.model().optimizer()->isConstant("loss_scaling"));
  w.call({1});
  EXPECT_NO_THROW(w.model().setOptimizer(sgd(4)));
}

TEST(AutomaticLossScaling, RefusesWhatItCannotDo) {
  Weight wide(sgd(1), automatic(), DType::F32);
  EXPECT_THAT(messageOf([&] { wide.call({1}); }), HasSubstr("no gradient in float16"));
  EXPECT_THAT(messageOf([] { Weight w(sgd(1), automatic().continuousWeightUpdates(true)); }),
              HasSubstr("continuousWeightUpdates"));
  const auto message = [](optim::LossScalingOptions settings) {
    return messageOf([&] { Weight(sgd(1), automatic(1, 1, settings)).call({1}); });
  };
  EXPECT_THAT(message({.binEdgeLocation = 1.5}), HasSubstr("binEdgeLocation is 1.5"));
  EXPECT_THAT(message({.thresholdUpperCountProportion = -0.5}),
              HasSubstr("thresholdUpperCountProportion is -0.5"));
  EXPECT_THAT(message({.updatePeriod = 0}), HasSubstr("updatePeriod is 0"));
}

using Tracking = optim::GradientTensorTrackingMethod;

/// (x m) s in float16: first a product of matrices, then one of elements. The gradient of m is x s,
/// which a matrix product makes; that of s is x m; that of the inner tensor "product" is s.
struct Products {
  Builder b;
  TensorId product;
  TensorId wide;
  TensorId loss;

  explicit Products(double m) {
    const auto weight = [&](double value, const std::string& name) {
      return b.addInitializedInputTensor(HostTensor::full({DType::F16, Shape{1, 1}}, value), name);
    };
    const TensorId x = b.addInputTensor({DType::F16, Shape{1, 1}}, "x");
    product = b.aiOnnx().matmul(x, weight(m, "m"));
    wide = b.aiOnnx().cast(b.aiOnnx().mul(product, weight(1, "s")), DType::F32);
    loss = b.aiGraphcore().identityloss(wide);
  }
};

/// The factor after one update with x = `input`. The scale of the loss is 1.
double factorOfProducts(double input, double m, Tracking method, std::vector<std::string> names) {
  Products net(m);
  for (std::string& name : names) {
    name = name == "product" ? net.product : name == "wide" ? net.wide : name;
  }
  Options options;
  options.training.setAutomaticLossScaling(
      true, {.gradientTensorTrackingMethod = method, .toTrackTensors = std::move(names)});
  auto model = trainingModel(net.b, net.loss, options, sgd(1));
  HostTensor x(DType::F16, Shape{1, 1});
  x.set(0, input);
  model.run({x});
  return model.session().read("optimizer.loss_scale_factor").at(0);
}

TEST(AutomaticLossScaling, WatchesTheGradientsOfItsMethod) {
  const auto all = Tracking::AllNonViewChangingGradientTensors;
  const auto products = Tracking::ConvAndMatmulGradients;
  const auto named = Tracking::GradientsOfUserSpecifiedTensors;
  EXPECT_EQ(factorOfProducts(1, 1, all, {}), 2);
  // Only m has a large gradient, which a matrix product makes.
  EXPECT_EQ(factorOfProducts(9000, 0.25, all, {}), 0.5);
  EXPECT_EQ(factorOfProducts(9000, 0.25, products, {}), 0.5);
  EXPECT_EQ(factorOfProducts(9000, 0.25, named, {"m"}), 0.5);
  EXPECT_EQ(factorOfProducts(9000, 0.25, named, {"s", "product"}), 2);
  EXPECT_EQ(factorOfProducts(9000, 0.25, named, {"s", "m", "m"}), 0.5);
  // Only s has a large gradient, which no matrix product makes.
  EXPECT_EQ(factorOfProducts(1, 9000, all, {}), 0.5);
  EXPECT_EQ(factorOfProducts(1, 9000, products, {}), 2);
  EXPECT_EQ(factorOfProducts(1, 9000, named, {"s"}), 0.5);
  EXPECT_EQ(factorOfProducts(1, 9000, named, {"m", "product"}), 2);
}

TEST(AutomaticLossScaling, WatchesNothingThatIsNoGradient) {
  // The gradient of atan is g / (x x + 1). Here x x is large, but it is not a gradient.
  Builder b;
  const TensorId x = b.addInputTensor({DType::F16, Shape{1}}, "x");
  const TensorId w = b.addInitializedInputTensor(HostTensor::full({DType::F16, Shape{1}}, 1), "w");
  const TensorId y = b.aiOnnx().atan(b.aiOnnx().mul(x, w));
  const TensorId loss = b.aiGraphcore().identityloss(b.aiOnnx().cast(y, DType::F32));
  Options options;
  options.training.setAutomaticLossScaling(true);
  auto model = trainingModel(b, loss, options, sgd(1));
  model.run({half({100})});
  EXPECT_EQ(model.session().read("optimizer.loss_scale_factor").at(0), 2);
}

TEST(AutomaticLossScaling, RefusesTensorsThatItCannotWatch) {
  const auto message = [](const std::string& name) {
    return messageOf([&] {
      factorOfProducts(1, 1, Tracking::GradientsOfUserSpecifiedTensors, {"s", name});
    });
  };
  EXPECT_THAT(message("z"), HasSubstr("the model has no tensor 'z'"));
  EXPECT_THAT(message("x"), HasSubstr("'x' has no gradient"));
  EXPECT_THAT(message("wide"), HasSubstr("is f32[1, 1], and only those in float16"));
  Options options;
  EXPECT_THAT(messageOf([&] {
                options.training.setAutomaticLossScaling(
                    true,
                    {.gradientTensorTrackingMethod = Tracking::GradientsOfUserSpecifiedTensors});
              }),
              HasSubstr("name them in toTrackTensors"));
  EXPECT_THAT(
      messageOf([&] { options.training.setAutomaticLossScaling(true, {.toTrackTensors = {"s"}}); }),
      HasSubstr("only GradientTensorTrackingMethod::GradientsOfUserSpecifiedTensors"));
  EXPECT_FALSE(options.training.automaticLossScaling());
  EXPECT_THAT(
      messageOf([] {
        Weight w(
            sgd(1),
            automatic(1, 1, {.gradientTensorTrackingMethod = Tracking::ConvAndMatmulGradients}));
        w.call({1});
      }),
      HasSubstr("no gradient in float16 of a convolution or matrix product"));
}

optim::SGD combinedSgd() {
  return optim::SGD(optim::SgdOptions{
      .lr = 1.0 / 64, .momentum = 0.5, .useCombinedAccum = true, .lossScaling = 2});
}

TEST(AutomaticLossScaling, ChangesNoResultOfTheCombinedSgd) {
  for (const auto& [accumulation, replicas] : {std::pair(1, 1), std::pair(2, 1), std::pair(2, 2)}) {
    const auto stateAfter = [&](bool on) {
      Options options = automatic(accumulation, replicas);
      options.training.setAutomaticLossScaling(on);
      Weight w(combinedSgd(), options);
      for (const double g : {8.0, -4.0, 2.0, 16.0}) {
        w.call(std::vector<double>(static_cast<std::size_t>(accumulation * replicas), g));
      }
      return std::pair(w(), w("w.momentum_buffer"));
    };
    EXPECT_EQ(stateAfter(true), stateAfter(false)) << accumulation << " " << replicas;
  }
}

TEST(AutomaticLossScaling, LeavesOutAnUpdateOfTheCombinedSgdThatOverflows) {
  for (const int accumulation : {1, 3}) {
    Weight w(combinedSgd(), automatic(accumulation));
    std::vector<double> gradients(static_cast<std::size_t>(accumulation), 8.0);
    w.call(gradients);
    const double before = w();
    const double velocity = w("w.momentum_buffer");
    const double factor = w.factor();
    EXPECT_NE(before, 1);
    gradients[0] = std::numeric_limits<double>::infinity();
    w.call(gradients);
    EXPECT_EQ(w(), before);
    EXPECT_EQ(w("w.momentum_buffer"), velocity);
    EXPECT_EQ(w.factor(), factor / 2);
    gradients[0] = 8;
    w.call(gradients);
    EXPECT_NE(w(), before);
  }
}

/// Hashes of all variables after five updates of two layers in float16.
std::map<std::string, std::uint64_t> trainedOn(int devices, Options options = Options()) {
  Builder b;
  TensorId x = b.addInputTensor({DType::F16, Shape{2, 4}}, "x");
  for (int layer = 0; layer < 2; ++layer) {
    const auto scope = b.virtualGraph(layer % devices);
    HostTensor w(DType::F16, Shape{4, 4});
    for (std::int64_t i = 0; i < 16; ++i) {
      w.set(i, static_cast<double>((i * (5 + layer)) % 13 - 6) / 8);
    }
    x = b.aiOnnx().relu(
        b.aiOnnx().matmul(x, b.addInitializedInputTensor(w, "w" + std::to_string(layer))));
    if (layer == 1) {
      x = b.aiGraphcore().identityloss(b.aiOnnx().cast(b.aiOnnx().mul(x, x), DType::F32));
    }
  }
  options.training.gradientAccumulation(4).setAutomaticLossScaling(true);
  if (devices > 1) {
    options.virtualGraphMode(VirtualGraphMode::Manual);
  }
  auto model = trainingModel(b, x, options, optim::AdamW({.lr = 0.01, .lossScaling = 256}));
  std::map<std::string, std::uint64_t> bits;
  for (int update = 0; update < 5; ++update) {
    const std::int64_t rows = 8 * options.replicationFactor();
    HostTensor inputs(DType::F16, Shape{rows, 4});
    for (std::int64_t i = 0; i < rows * 4; ++i) {
      inputs.set(i, static_cast<double>((i * (3 + update)) % 11 - 5) / 4);
    }
    model.run({inputs});
    bits["factor" + std::to_string(update)] =
        model.session().read("optimizer.loss_scale_factor").hash();
  }
  for (const char* name : {"w0", "w1", "w0.exp_avg", "w1.exp_avg_sq", "optimizer.step"}) {
    bits[name] = model.session().read(name).hash();
  }
  return bits;
}

TEST(AutomaticLossScaling, HasTheSameBitsOnSeveralDevices) {
  const auto expected = trainedOn(1);
  EXPECT_EQ(trainedOn(2), expected);
  EXPECT_EQ(trainedOn(2, Options().enablePipelining(true)), expected);
}

TEST(AutomaticLossScaling, HasTheSameBitsWhereReplicasShareTheState) {
  Options sharded;
  sharded.replicationFactor(2);
  sharded.tensorLocations.setOptimizerLocation(TensorLocationSettings()
                                                   .useReplicatedTensorSharding(true)
                                                   .minElementsForReplicatedTensorSharding(1));
  EXPECT_EQ(trainedOn(1, sharded), trainedOn(1, Options().replicationFactor(2)));
}

}  // namespace
}  // namespace sluice
