// Buffers that forward writes: what is kept from call to call, per replica, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Counts its micro-batches.
struct Counter : nn::Module {
  nn::Parameter& count = addBuffer("count", {DType::F32, Shape{1}}, ir::Initializer::constant(0));
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
  std::pair<nn::Tensor, nn::Tensor> forward(const nn::Tensor& x) {
    count += 1.0;
    return {count, nn::mean(x * w)};
  }
};

HostTensor rows(std::int64_t count) {
  return HostTensor::full({DType::F32, Shape{count, 1}}, 1);
}

TEST(Buffers, ThatAreWrittenPersistFromCallToCall) {
  Counter net;
  auto inference = inferenceModel(net, Options());
  EXPECT_EQ(inference(rows(2)).first.at(0), 1);
  EXPECT_EQ(inference(rows(2)).first.at(0), 2);
  EXPECT_EQ(net.count.value().at(0), 2);
  // Another model of the module goes on from there, and so does a program for another size.
  auto training = trainingModel(net, Options(), optim::SGD(0.1));
  EXPECT_EQ(training(rows(2)).first.at(0), 3);
  EXPECT_EQ(inference(rows(5)).first.at(0), 4);
  net.count.setValue(HostTensor::of<float>(Shape{1}, {10}));
  EXPECT_EQ(training(rows(2)).first.at(0), 11);
}

TEST(Buffers, AdvanceWithEveryMicroBatchOfACall) {
  Counter net;
  Options options;
  options.deviceIterations(3);
  options.training.gradientAccumulation(5);
  auto training = trainingModel(net, options, optim::SGD(0.1));
  for (int call = 1; call <= 3; ++call) {
    EXPECT_EQ(training(rows(15)).first.at(0), 15 * call);
    EXPECT_EQ(net.count.value().at(0), 15 * call);
  }
  auto inference = inferenceModel(net, Options().deviceIterations(3));
  inference(rows(3));
  EXPECT_EQ(net.count.value().at(0), 48);
}

TEST(Buffers, SeeWhatIsWrittenInTheSameRun) {
  struct Twice : nn::Module {
    nn::Parameter& b = addBuffer("b", {DType::F32, Shape{1}}, ir::Initializer::constant(2));
    nn::Tensor forward(const nn::Tensor& x) {
      b += 1.0;  // 3
      b *= 2.0;  // 6
      b += nn::reshape(nn::mean(x), {1});
      return b;
    }
  };
  Twice net;
  auto model = inferenceModel(net, Options());
  EXPECT_EQ(model(rows(4)).at(0), 7);
  EXPECT_EQ(model(rows(4)).at(0), 17);  // (7 + 1) 2 + 1
}

TEST(Buffers, AreWrittenAndPlainTensorsAreConstants) {
  struct Plain : nn::Module {
    HostTensor value = HostTensor::of<float>(Shape{1}, {5});
    nn::Tensor forward(const nn::Tensor& x) {
      const nn::Tensor sum = nn::constant(value) + 1.0;
      return sum + x * 0.0;
    }
  };
  Plain net;
  auto model = inferenceModel(net, Options());
  EXPECT_EQ(model(rows(1)).at(0), 6);
  net.value = HostTensor::of<float>(Shape{1}, {9});
  EXPECT_EQ(model(rows(1)).at(0), 6);
}

/// Adds what it is given.
struct Sum : nn::Module {
  nn::Parameter& sum = addBuffer("sum", {DType::F32, Shape{1}}, ir::Initializer::constant(0));
  nn::Parameter& scale = addBuffer("scale", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
  nn::Tensor forward(const nn::Tensor& x) {
    sum += nn::reshape(x * scale, {1});
    return sum;
  }
};

TEST(Buffers, OfReplicasAreTheirOwn) {
  Sum net;
  auto model = inferenceModel(net, Options().replicationFactor(2).broadcastBuffers(false));
  const auto x = HostTensor::of<float>(Shape{2}, {9, 2});
  for (int call = 0; call < 50; ++call) {
    model(x);
  }
  EXPECT_EQ(model.session().read("sum", 0).at(0), 450);
  EXPECT_EQ(model.session().read("sum", 1).at(0), 100);
}

TEST(Buffers, OfReplicasAreThoseOfTheFirstWhenBroadcast) {
  Sum net;
  auto model = inferenceModel(net, Options().replicationFactor(2));
  model(HostTensor::of<float>(Shape{2}, {9, 2}));
  EXPECT_EQ(model.session().read("sum", 0).at(0), 9);
  EXPECT_EQ(model.session().read("sum", 1).at(0), 9);
}

TEST(Buffers, ThatReplicasWriteCannotBeSharedUnderTheRulesOfTheIpu) {
  Sum net;
  const auto x = HostTensor::of<float>(Shape{2}, {9, 2});
  const Options shared = Options().replicationFactor(2).enforceIpuRules(true);
  auto refused = inferenceModel(net, shared);
  EXPECT_THAT(
      messageOf([&] { refused(x); }),
      AllOf(HasSubstr("'sum' is written by 2 replicas"), HasSubstr("broadcastBuffers(false)")));
  struct Constant : nn::Module {
    nn::Parameter& b = addBuffer("b", {DType::F32, Shape{1}}, ir::Initializer::constant(3));
    nn::Tensor forward(const nn::Tensor& y) { return y * b; }
  };
  Constant constantNet;
  auto constant = inferenceModel(constantNet, shared);
  EXPECT_EQ(constant(x).at(0), 27);
  Sum own;
  auto allowed = inferenceModel(own, shared.clone().broadcastBuffers(false));
  EXPECT_EQ(allowed(x).at(1), 2);
}

TEST(Buffers, CannotBeReplacedOrDeletedOnceCompiled) {
  struct Net : nn::Module {
    struct Part : nn::Module {
      using Module::Module;
      nn::Parameter& b = addBuffer("b", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
    };
    std::unique_ptr<Part> part = std::make_unique<Part>(*this, "part");
    nn::Tensor forward(const nn::Tensor& x) { return x + part->b; }
  };
  Net net;
  net.part->b.setInitializer(ir::Initializer::constant(2));
  auto model = inferenceModel(net, Options());
  EXPECT_EQ(model(rows(1)).at(0), 3);
  EXPECT_THAT(messageOf([&] { net.part->b.setInitializer(ir::Initializer::constant(4)); }),
              AllOf(HasSubstr("'part.b' cannot be replaced"), HasSubstr("setValue")));
  nn::Linear added(net, "added", 2, 2);  // more is no harm
  EXPECT_EQ(model(rows(1)).at(0), 3);
  net.part.reset();
  EXPECT_THAT(messageOf([&] { model(rows(1)); }), HasSubstr("'part.b' was deleted or replaced"));
  EXPECT_THAT(messageOf([&] { Net::Part(net, "part"); }), HasSubstr("'part.b' cannot be replaced"));
  model.destroy();
  EXPECT_NO_THROW(Net::Part(net, "part"));
}

TEST(Buffers, AreWrittenWeightsAreNot) {
  struct Wrong : nn::Module {
    nn::Parameter& w = addParameter("w", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
    nn::Parameter& b = addBuffer("b", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
    bool writesWeight = true;
    nn::Tensor forward(const nn::Tensor& x) {
      if (writesWeight) {
        w += 1.0;
      }
      b.assign(x);
      return x;
    }
  };
  Wrong net;
  auto model = inferenceModel(net, Options());
  EXPECT_THAT(messageOf([&] { model(rows(2)); }), HasSubstr("'w' is a weight"));
  net.writesWeight = false;
  EXPECT_THAT(messageOf([&] { model(rows(2)); }),
              HasSubstr("buffer 'b' is f32[1], a value f32[2, 1]"));
}

TEST(ConstantWeights, CannotBeOffTheDevices) {
  Builder builder;
  const TensorId x = builder.addInputTensor({DType::F32, Shape{2, 2}}, "x");
  const TensorId w =
      builder.addInitializedInputTensor(HostTensor::full({DType::F32, Shape{2, 2}}, 0.5), "w");
  const TensorId y = builder.aiOnnx().relu(builder.aiOnnx().matmul(x, w));
  builder.addOutputTensor(y);
  const DataFlow flow(1, {{y, AnchorReturnType("All")}});
  Options phased;
  phased.setExecutionStrategy(SerialPhasedExecution(parallel::Phase::automatic(2)));
  Options off;
  off.tensorLocations.setWeightLocation(TensorLocationSettings().useOnChipStorage(false));
  for (const Options& options : {phased, off}) {
    EXPECT_THAT(messageOf([&] { InferenceSession(builder, flow, options.clone()); }),
                AllOf(HasSubstr("constantWeights"), HasSubstr("remote memory")));
    InferenceSession session(builder, flow, options.clone(), false);
    session.prepareDevice();
    NamedTensors anchors = session.initAnchorArrays();
    const NamedTensors inputs = {{"x", HostTensor::full({DType::F32, Shape{2, 2}}, 1)}};
    session.run({.inputs = inputs, .outputs = anchors});
    EXPECT_EQ(anchors.at(y).at(0), 1);
  }
}

}  // namespace
}  // namespace sluice
