// The end of a model: what is freed, what is kept, and who may wrap the module again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::HasSubstr;

/// y = w x and the loss mean(y²); counts its calls in a buffer.
struct DestroyedNet : nn::Module {
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
  nn::BatchNorm norm{*this, "norm", 1};
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x) {
    const nn::Tensor y = x * w;
    return {norm(y), nn::mean(y * y)};
  }
};

HostTensor destroyedInput() {
  return HostTensor::of<float>(Shape{2, 1}, {1, 2});  // mean(x²) = 2.5
}

TEST(Wrapping, TwiceForTrainingIsRefusedUntilTheFirstIsDestroyed) {
  DestroyedNet net;
  auto first = trainingModel(net, Options(), optim::SGD(0.1));
  EXPECT_THAT(messageOf([&] { trainingModel(net, Options(), optim::SGD(0.1)); }),
              HasSubstr("already wrapped"));
  EXPECT_NO_THROW(inferenceModel(net, Options()));
  auto moved = std::move(first);
  EXPECT_THAT(messageOf([&] { trainingModel(net, Options()); }), HasSubstr("destroy()"));
  moved.destroy();
  EXPECT_NO_THROW(trainingModel(net, Options()));  // ends at once, and so does its claim
  auto last = trainingModel(net, Options());
  EXPECT_EQ(last(destroyedInput()).second.at(0), 2.5);
}

TEST(Wrapping, ThatFailsLeavesTheModuleFree) {
  DestroyedNet net;
  EXPECT_THROW(trainingModel(net, Options().enableProfiling("/dev/null/profile")), FileError);
  EXPECT_NO_THROW(trainingModel(net, Options()));
}

TEST(Destroying, FreesTheDevicesAndKeepsWeightsAndBuffersForOtherDevices) {
  DestroyedNet net;
  auto model = trainingModel(net, Options().threads(2), optim::SGD(0.1));
  model(destroyedInput());
  // The gradient is 2 w mean(x²) = 5.
  EXPECT_EQ(static_cast<float>(net.w.value().at(0)), 0.5F);
  const std::weak_ptr<nn::StateStore> session = net.store();
  const HostTensor runningMean = net.norm.runningMean.value();
  model.destroy();
  EXPECT_TRUE(session.expired());
  EXPECT_EQ(net.store(), nullptr);
  EXPECT_EQ(static_cast<float>(net.w.value().at(0)), 0.5F);
  EXPECT_EQ(net.norm.runningMean.value().hash(), runningMean.hash());
  EXPECT_NE(runningMean.at(0), 0.0);
  // Other threads and another seed, which models of one session could not have.
  auto again = trainingModel(net, Options().threads(1).randomSeed(9), optim::SGD(0.1));
  EXPECT_EQ(again(destroyedInput()).second.at(0), 0.625);  // 0.5² 2.5
  EXPECT_EQ(again.updates(), 1);
}

/// The devices that a training model of the module gets, as threads and bytes.
std::pair<std::int64_t, std::size_t> devicesOf(DestroyedNet& net, const Options& options) {
  auto model = trainingModel(net, options, optim::SGD(0.1));
  model(destroyedInput());
  const device::DeviceInfo& info = model.session().device().info();
  return {info.threads, info.memoryBytes};
}

TEST(Destroying, LetsTheNextModelHaveOtherDevices) {
  DestroyedNet net;
  const std::size_t budget = std::size_t{1} << 20U;
  EXPECT_EQ(devicesOf(net, Options().threads(2)), (std::pair(std::int64_t{2}, std::size_t{0})));
  // The model ended with its scope, without destroy().
  EXPECT_EQ(devicesOf(net, Options().threads(1).memoryPerDevice(budget)),
            (std::pair(std::int64_t{1}, budget)));
  EXPECT_EQ(static_cast<float>(net.w.value().at(0)), 0.25F);  // halved by each
  EXPECT_THROW(devicesOf(net, Options().memoryPerDevice(64)), OutOfMemory);
  EXPECT_EQ(devicesOf(net, Options().memoryPerDevice(2 * budget)).second, 2 * budget);
  EXPECT_EQ(static_cast<float>(net.w.value().at(0)), 0.125F);
  // While a model lives, others have its devices.
  auto model = trainingModel(net, Options().threads(2), optim::SGD(0.1));
  EXPECT_THAT(messageOf([&] { inferenceModel(net, Options().threads(1)); }),
              HasSubstr("use the same threads"));
}

TEST(Destroying, KeepsTheOptimizersStateForOtherDevices) {
  const auto train = [](bool otherDevices) {
    DestroyedNet net;
    for (int i = 0; i < 3; ++i) {
      const Options options = Options().threads(otherDevices && i > 0 ? 2 : 1);
      auto model =
          trainingModel(net, options, optim::SGD(optim::SgdOptions{.lr = 0.01, .momentum = 0.9}));
      model(destroyedInput());
    }
    return std::pair(net.w.value().hash(), net.norm.runningMean.value().hash());
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(Destroying, LeavesOtherModelsOfTheModuleAlone) {
  DestroyedNet net;
  auto training = trainingModel(net, Options(), optim::SGD(0.1));
  auto inference = inferenceModel(net, Options());
  training(destroyedInput());
  training.destroy();
  EXPECT_NE(net.store(), nullptr);
  EXPECT_EQ(inference(destroyedInput()).second.at(0), 0.625);
  inference.destroy();
  EXPECT_EQ(net.store(), nullptr);
}

TEST(Destroying, LeavesNothingToCall) {
  DestroyedNet net;
  auto model = trainingModel(net, Options());
  model(destroyedInput());
  model.destroy();
  model.destroy();  // again is no error
  EXPECT_FALSE(model.isCompiled());
  EXPECT_FALSE(model.isAttachedToDevice());
  const auto refused = [](auto call) { EXPECT_THAT(messageOf(call), HasSubstr("was destroyed")); };
  refused([&] { model(destroyedInput()); });
  refused([&] { model.runAsync({destroyedInput()}).get(); });
  refused([&] { model.compile(std::vector{destroyedInput()}); });
  refused([&] { model.session(); });
  refused([&] { model.copyWeightsToHost(); });
  refused([&] { model.attachToDevice(); });
  refused([&] { model.detachFromDevice(); });
  refused([&] { model.updates(); });
  refused([&] { model.program(); });
}

TEST(Destroying, WaitsForAStepThatIsUnderWay) {
  DestroyedNet net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  Pending pending = model.runAsync({destroyedInput()});
  model.destroy();
  EXPECT_TRUE(pending.isReady());
  EXPECT_EQ(pending.get()[1].at(0), 2.5);
  EXPECT_EQ(static_cast<float>(net.w.value().at(0)), 0.5F);
}

TEST(Destroying, KeepsTheWeightsOfABuilder) {
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{1}}, "x");
  const TensorId w = b.addInitializedInputTensor(HostTensor::of<float>(Shape{1}, {3}), "w");
  const TensorId product = b.aiOnnx().mul(x, w);
  b.addOutputTensor(product);
  const TensorId loss = b.aiGraphcore().identityloss(product);
  auto model = trainingModel(b, loss, Options(), optim::SGD(0.5));
  EXPECT_THAT(messageOf([&] { trainingModel(b, loss, Options(), optim::SGD(0.5)); }),
              HasSubstr("already wrapped"));
  model.run({HostTensor::of<float>(Shape{1}, {2})});  // the gradient is 2, so w becomes 2
  model.destroy();
  const auto session = std::dynamic_pointer_cast<Session>(b.store());
  ASSERT_NE(session, nullptr);
  EXPECT_FALSE(session->isAttached());
  auto other = inferenceModel(b, Options());
  EXPECT_EQ(other.run({HostTensor::of<float>(Shape{1}, {5})})[0].at(0), 10.0);
  other.destroy();
  auto elsewhere = inferenceModel(b, Options().threads(2).memoryPerDevice(1U << 20U));
  EXPECT_EQ(elsewhere.run({HostTensor::of<float>(Shape{1}, {5})})[0].at(0), 10.0);
  EXPECT_EQ(elsewhere.session().device().info().threads, 2);
}

}  // namespace
}  // namespace sluice
