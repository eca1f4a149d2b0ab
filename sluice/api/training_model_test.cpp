// What trainingModel does unless it is told otherwise, and how gradients are accumulated by type.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "sluice/compile/training_graph.h"
#include "sluice/sluice.h"
#include "sluice/transforms/decompose.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::HasSubstr;

/// y = w x and the loss y².
struct TrainedNet : nn::Module {
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{1}}, ir::Initializer::constant(2));
  bool scalar = true;
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x) {
    const nn::Tensor y = x * w;
    return {y, scalar ? nn::mean(y * y) : y * y};
  }
};

TEST(TrainingModel, TrainsByTheLossWithSgdAndReturnsTheLastMicroBatch) {
  TrainedNet net;
  auto model = trainingModel(net, Options().deviceIterations(2));
  const auto [y, loss] = model(HostTensor::of<float>(Shape{2, 1}, {1, 3}));
  // Gradients are 2 w x²: 4, then 35.28 at w = 1.96, both times 0.01.
  EXPECT_EQ(y.shape(), (Shape{1, 1}));
  EXPECT_EQ(loss.shape(), Shape{});
  EXPECT_FLOAT_EQ(static_cast<float>(y.at(0)), 5.88F);
  EXPECT_FLOAT_EQ(static_cast<float>(loss.at(0)), 34.5744F);
  EXPECT_FLOAT_EQ(static_cast<float>(net.w.value().at(0)), 1.6072F);
  ASSERT_NE(model.optimizer(), nullptr);
  EXPECT_EQ(model.optimizer()->name(), optim::SGD(0.01).name());
}

TEST(TrainingModel, CompilesAgainWhatForwardDoesNow) {
  struct Scaled : TrainedNet {
    double factor = 1;
    nn::Tensor forward(nn::Tensor x) { return nn::mean(x * w * factor); }
  };
  Scaled net;
  auto model = trainingModel(net, Options());
  const std::vector<HostTensor> inputs{HostTensor::of<float>(Shape{1, 1}, {1})};
  EXPECT_FLOAT_EQ(static_cast<float>(model(inputs[0]).at(0)), 2);
  net.factor = 3;
  EXPECT_FLOAT_EQ(static_cast<float>(model(inputs[0]).at(0)), 1.99F);
  model.compileAgain(inputs);
  EXPECT_FLOAT_EQ(static_cast<float>(model(inputs[0]).at(0)), 3 * 1.98F);
  EXPECT_FLOAT_EQ(static_cast<float>(net.w.value().at(0)), 1.95F);
}

TEST(TrainingModel, NeedsALossThatIsOneNumber) {
  TrainedNet net;
  net.scalar = false;
  auto model = trainingModel(net, Options());
  EXPECT_THAT(messageOf([&] {
                model(HostTensor::of<float>(Shape{2, 1}, {1, 3}));
              }),
              HasSubstr("scalar"));
}

template <class T>
concept HasBackward = requires(T t) {
  t.backward();
};

TEST(TrainingModel, GivesOutputsThatNobodyCanDifferentiate) {
  // Training is what the model does: a call of backward() on what it returns does not compile.
  static_assert(!HasBackward<HostTensor>);
  static_assert(!HasBackward<nn::Tensor>);
  static_assert(
      !HasBackward<decltype(std::declval<TypedModel<TrainedNet>&>()(HostTensor()).second)>);
  static_assert(!HasBackward<Pending>);
  SUCCEED();
}

HostTensor half(const Shape& shape, double value) {
  return HostTensor::full({DType::F16, shape}, value);
}

/// The modes of the accumulators' assigns: of the weights h in float16 and s in float32.
std::pair<std::string, std::string> modesOf(const optim::Optimizer& optimizer,
                                            const compiler::TrainingGraphOptions& options) {
  Builder b;
  const TensorId x = b.addInputTensor({DType::F16, Shape{1}}, "x");
  const TensorId y = b.addInputTensor({DType::F32, Shape{1}}, "y");
  const TensorId h = b.addInitializedInputTensor(half(Shape{1}, 1), "h");
  const TensorId s = b.addInitializedInputTensor(HostTensor::of<float>(Shape{1}, {1}), "s");
  const TensorId wide = b.aiOnnx().cast(b.aiOnnx().mul(x, h), DType::F32);
  b.addOutputTensor(b.aiGraphcore().identityloss(b.aiOnnx().add(wide, b.aiOnnx().mul(y, s))));
  ir::Graph graph = b.graph();
  transforms::decompose(graph, [](const ir::Op&) { return false; });
  compiler::addTraining(graph, graph.outputs()[0].value, optimizer, options);
  std::pair<std::string, std::string> modes;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.is(ir::kAssign) && op.place.pass == ir::Pass::Backward) {
      (op.attrs.text("var").starts_with("h.") ? modes.first : modes.second) = op.attrs.text("mode");
    }
  }
  return modes;
}

using Modes = std::pair<std::string, std::string>;

TEST(MeanStrategy, IsRunningForAccumulatorsInFloat16) {
  optim::SGD sgd(0.25);
  EXPECT_EQ(modesOf(sgd, {.accumulation = 2}), (Modes{"sum", "sum"}));
  sgd.setAccumulationType([](const ir::Variable&) { return std::nullopt; });
  EXPECT_EQ(modesOf(sgd, {.accumulation = 2}), (Modes{"mean", "sum"}));
  const optim::SGD narrow(optim::SgdOptions{.lr = 0.25, .accumType = DType::F16});
  EXPECT_EQ(modesOf(narrow, {.accumulation = 2}), (Modes{"mean", "mean"}));
  EXPECT_EQ(modesOf(narrow, {.accumulation = 2, .reduction = Reduction::Sum}),
            (Modes{"sum", "sum"}));
}

TEST(MeanStrategy, ThatWasChosenIsKept) {
  const optim::SGD narrow(optim::SgdOptions{.lr = 0.25, .accumType = DType::F16});
  EXPECT_EQ(modesOf(narrow, {.accumulation = 2, .meanStrategy = MeanReductionStrategy::Post}),
            (Modes{"sum", "sum"}));
  EXPECT_EQ(
      modesOf(narrow, {.accumulation = 2, .meanStrategy = MeanReductionStrategy::PostAndLoss}),
      (Modes{"sum", "sum"}));
  EXPECT_EQ(modesOf(optim::SGD(0.25),
                    {.accumulation = 2, .meanStrategy = MeanReductionStrategy::Running}),
            (Modes{"mean", "mean"}));
}

TEST(MeanStrategy, OfTheCombinedSgdIsPost) {
  const optim::SGD combined(optim::SgdOptions{
      .lr = 0.25, .momentum = 0.5, .useCombinedAccum = true, .accumType = DType::F16});
  EXPECT_EQ(modesOf(combined, {.accumulation = 2}), (Modes{"add", "add"}));
}

TEST(MeanStrategy, KeepsFloat16FromOverflowing) {
  // Two gradients of 40960 are more than float16 holds; their mean is not. The rate is 2^-13.
  const auto weightAfter = [](Reduction reduction, int replicas) {
    Builder b;
    const TensorId x = b.addInputTensor({DType::F16, Shape{1}}, "x");
    const TensorId w = b.addInitializedInputTensor(half(Shape{1}, 1), "w");
    const TensorId loss = b.aiGraphcore().identityloss(b.aiOnnx().mul(x, w));
    Options options;
    options.replicationFactor(replicas);
    options.training.gradientAccumulation(2).accumulationAndReplicationReductionType(reduction);
    const optim::SgdOptions sgd{.lr = 1.0 / 8192, .accumType = DType::F16};
    auto model = trainingModel(b, loss, options, optim::SGD(sgd));
    const double value = replicas == 1 ? 40960 : 1024;
    model.run({half(Shape{2 * replicas}, value)});
    return model.session().read("w").at(0);
  };
  EXPECT_EQ(weightAfter(Reduction::Mean, 1), 1 - 5.0);
  EXPECT_EQ(weightAfter(Reduction::Sum, 1), -std::numeric_limits<double>::infinity());
  // The mean over replicas is taken once, after their sum.
  EXPECT_EQ(weightAfter(Reduction::Mean, 2), 1 - 0.125);
}

}  // namespace
}  // namespace sluice
