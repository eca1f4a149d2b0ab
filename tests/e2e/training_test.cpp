// What training computes, against closed forms and the reference kernels.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "sluice/nn/tracer.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/reference_training.h"
#include "tests/support/random_tensor.h"

namespace sluice {
namespace {

using testing::Bits;
using testing::bitsOf;
using testing::Cnn;
using testing::Line;
using testing::makeInputs;
using testing::Mlp;
using testing::relativeDifference;

struct OneWeight : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1, {.bias = false}};
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) { return nn::mseLoss(fc(x), y); }
};

TEST(Training, FollowsTheClosedFormOfARegression) {
  // loss = (w - 2)², so w <- w - 2 lr (w - 2); with lr = 1/4 the distance to 2 halves each step.
  OneWeight net;
  net.fc.weight.setValue(HostTensor(DType::F32, Shape{1, 1}));
  auto model = trainingModel(net, Options(), optim::SGD(0.25));
  const HostTensor x = HostTensor::full({DType::F32, Shape{2, 1}}, 1.0);
  const HostTensor y = HostTensor::full({DType::F32, Shape{2, 1}}, 2.0);
  for (int k = 0; k < 12; ++k) {
    EXPECT_EQ(model(x, y).at(0), 4.0 * std::pow(0.25, k)) << "loss of step " << k;
    EXPECT_EQ(net.fc.weight.value().at(0), 2.0 * (1.0 - std::pow(0.5, k + 1))) << "step " << k;
  }
  EXPECT_EQ(model.updates(), 12);
}

template <class Net>
void expectTrainsLikeTheReference(const optim::Optimizer& optimizer, int steps) {
  testing::ReferenceTraining<Net> reference(optimizer);
  Net net;
  auto model = TypedModel<Net>(net, Options(), optimizer.clone());
  for (int step = 0; step < steps; ++step) {
    const std::vector<HostTensor> inputs = makeInputs(Net::inputs(), step % 4, 1);
    const HostTensor loss = model.run(inputs).back();
    EXPECT_LT(relativeDifference(loss, reference.step(inputs)), 2e-5) << "loss of step " << step;
  }
  for (const auto& [name, value] : reference.variables()) {
    EXPECT_LT(relativeDifference(model.session().read(name), value), 1e-4) << name;
  }
}

TEST(Training, FollowsTheReferenceKernels) {
  expectTrainsLikeTheReference<Mlp>(optim::SGD({.lr = 0.1, .momentum = 0.9}), 20);
  expectTrainsLikeTheReference<Mlp>(optim::AdamW(0.01), 20);
  expectTrainsLikeTheReference<Mlp>(optim::LAMB(0.01), 20);
  expectTrainsLikeTheReference<Mlp>(optim::RMSprop({.lr = 0.01, .momentum = 0.5}), 20);
  expectTrainsLikeTheReference<Cnn>(optim::SGD(0.05), 8);
}

std::vector<HostTensor> trained(const Options& options, double lr, int calls) {
  Mlp net;
  auto model = trainingModel(net, options, optim::SGD(lr));
  for (int call = 0; call < calls; ++call) {
    model.run(makeInputs(Mlp::inputs(), call, 1));  // 8 rows, however they are cut
  }
  std::vector<HostTensor> weights;
  for (const nn::Parameter* parameter : net.parameters()) {
    weights.push_back(parameter->value());
  }
  return weights;
}

void expectClose(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_LT(relativeDifference(a[i], b[i]), 1e-6) << "parameter " << i;
  }
}

TEST(GradientAccumulation, GivesTheStepOfOneLargeBatch) {
  Options mean2;
  mean2.training.gradientAccumulation(2);
  Options mean4;
  mean4.training.gradientAccumulation(4);
  const std::vector<HostTensor> whole = trained(Options(), 0.1, 6);
  expectClose(whole, trained(mean2, 0.1, 6));
  expectClose(whole, trained(mean4, 0.1, 6));
  Options sum1;
  sum1.training.accumulationReduction(Reduction::Sum);
  Options sum2 = sum1;
  sum2.training.gradientAccumulation(2);
  expectClose(trained(sum1, 0.02, 6), trained(sum2, 0.01, 6));
  EXPECT_GT(relativeDifference(trained(sum2, 0.1, 6)[0], whole[0]), 1e-3);
}

TEST(BatchNorm, IsTrackedInTrainingAndUsedForInferenceWithoutACopy) {
  Cnn net;
  auto training = trainingModel(net, Options(), optim::SGD(0.05));
  const std::vector<HostTensor> batch = makeInputs(Cnn::inputs(), 0, 1);
  for (int i = 0; i < 3; ++i) {
    training.run(batch);
  }
  EXPECT_EQ(net.norm.numBatchesTracked.value().at(0), 3);
  EXPECT_NE(net.norm.runningMean.value().at(0), 0.0);
  const Bits before = bitsOf(training.session());
  auto inference = inferenceModel(net, Options());
  const HostTensor logits = inference(batch[0], batch[1]).first;
  EXPECT_EQ(&inference.session(), &training.session());
  EXPECT_EQ(bitsOf(inference.session()), before);  // no variable more, none changed

  ir::Graph graph;
  {
    nn::Tracer tracer(graph, nn::TraceMode::Inference);
    const nn::Tensor x = tracer.input("x", batch[0].type());
    graph.addOutput("y", net.forward(x, tracer.input("labels", batch[1].type())).first.value());
  }
  ops::TensorMap variables;
  for (const auto& [name, hash] : before) {
    variables[name] = training.session().read(name);
  }
  const ops::TensorMap out =
      ops::evaluate(graph, {{"x", batch[0]}, {"labels", batch[1]}}, variables);
  EXPECT_LT(relativeDifference(logits, out.at("y")), 1e-5);
}

TEST(Validation, BetweenStepsChangesNoBitOfTraining) {
  const auto run = [](bool validate) {
    Cnn net;
    auto training = trainingModel(net, Options(), optim::AdamW(0.01));
    auto validation = inferenceModel(net, Options().deviceIterations(2));
    for (int i = 0; i < 4; ++i) {
      training.run(makeInputs(Cnn::inputs(), i, 1));
      if (validate) {
        validation.run(makeInputs(Cnn::inputs(), 50, 2));
      }
    }
    return bitsOf(training.session());
  };
  EXPECT_EQ(run(false), run(true));
}

TEST(FrozenParameters, DoNotChangeAndGetNoOptimizerState) {
  Mlp net;
  net.fc1.freeze();
  auto model = trainingModel(net, Options(), optim::AdamW(0.01));
  const HostTensor before = net.fc1.weight.value();
  const HostTensor other = net.fc2.weight.value();
  model.run(makeInputs(Mlp::inputs(), 0, 1));
  EXPECT_TRUE(net.fc1.weight.value().sameBits(before));
  EXPECT_FALSE(net.fc2.weight.value().sameBits(other));
  EXPECT_FALSE(model.session().contains("fc1.weight.exp_avg"));
  EXPECT_TRUE(model.session().contains("fc2.weight.exp_avg"));
}

TEST(FrozenParameters, AreAnErrorWhenNothingIsLeftToTrain) {
  Mlp net;
  net.freeze();
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  try {
    model.run(makeInputs(Mlp::inputs(), 0, 1));
    FAIL() << "nothing thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("no trainable weights"));
  }
}

TEST(Loss, ThatDependsOnNoWeightIsAnError) {
  struct Apart : nn::Module {
    nn::Linear fc{*this, "fc", 2, 1};
    nn::Tensor forward(nn::Tensor x, nn::Tensor y) { return nn::mseLoss(nn::detach(fc(x)), y); }
  };
  Apart net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  try {
    model(HostTensor(TensorType{DType::F32, Shape{3, 2}}),
          HostTensor(TensorType{DType::F32, Shape{3, 1}}));
    FAIL() << "nothing thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("depends on none of its 2 trainable weights"));
  }
}

HostTensor column(std::initializer_list<float> values) {
  return HostTensor::of<float>(Shape{static_cast<std::int64_t>(values.size()), 1}, values);
}

TEST(Parameters, SetByTheUserAreUsedByBothModels) {
  Line net;
  auto training = trainingModel(net, Options(), optim::SGD(0.0));
  auto inference = inferenceModel(net, Options());
  const HostTensor x = column({1, 2});
  net.fc.weight.setValue(column({3}));
  net.fc.bias->setValue(HostTensor::of<float>(Shape{1}, {1}));
  EXPECT_EQ(training(x, x).first.toDoubles(), (std::vector<double>{4, 7}));
  net.fc.weight.setValue(column({5}));
  EXPECT_EQ(training(x, x).first.toDoubles(), (std::vector<double>{6, 11}));
  EXPECT_EQ(inference(x, x).first.toDoubles(), (std::vector<double>{6, 11}));
  EXPECT_THROW(net.fc.weight.setValue(column({1, 2})), InvalidArgument);
}

TEST(Parameters, AreSharedBothWaysWithTheModule) {
  // loss = (w - 2)^2 with a rate of 1/4: a step halves the distance of w to 2.
  OneWeight net;
  net.fc.weight.setValue(column({0}));
  auto training = trainingModel(net, Options(), optim::SGD(0.25));
  auto inference = inferenceModel(net, Options());
  const HostTensor one = column({1});
  const HostTensor two = column({2});
  training(one, two);
  EXPECT_EQ(net.fc.weight.value().at(0), 1.0);  // from the training model to the module
  EXPECT_EQ(inference(one, two).at(0), 1.0);    // and to the other model: (1 - 2)^2
  net.fc.weight.setValue(column({6}));          // from the module to both models
  EXPECT_EQ(inference(one, two).at(0), 16.0);
  training(one, two);
  EXPECT_EQ(net.fc.weight.value().at(0), 4.0);
  EXPECT_EQ(inference(one, two).at(0), 4.0);
  // The module keeps what the models leave behind.
  training.destroy();
  inference.destroy();
  EXPECT_EQ(net.fc.weight.value().at(0), 4.0);
}

/// A plain number, and a layer that looks at the module's training flag.
struct WithScalars : nn::Module {
  double factor = 2;
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
  nn::Dropout dropout{*this, "dropout", 0.5};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x) {
    const nn::Tensor y = dropout(x * w.use()) * factor;
    return {y, nn::mean(y)};
  }
};

TEST(Scalars, OfAModuleAreNotThoseOfAModelThatWasTracedBefore) {
  WithScalars net;
  auto before = inferenceModel(net, Options());
  const HostTensor x = HostTensor::of<float>(Shape{3}, {1, 2, 3});
  EXPECT_EQ(before(x).first.toDoubles(), (std::vector<double>{2, 4, 6}));
  net.factor = 10;
  EXPECT_EQ(before(x).first.toDoubles(), (std::vector<double>{2, 4, 6}));
  net.w.setValue(HostTensor::of<float>(Shape{1}, {3}));  // a parameter, in contrast
  EXPECT_EQ(before(x).first.toDoubles(), (std::vector<double>{6, 12, 18}));
  auto after = inferenceModel(net, Options());
  EXPECT_EQ(after(x).first.toDoubles(), (std::vector<double>{30, 60, 90}));
}

TEST(Scalars, TheTrainingFlagCountsWhenTheModelIsTraced) {
  const HostTensor x = HostTensor::full({DType::F32, Shape{64}}, 1);
  const auto zeros = [&](auto& model) {
    const std::vector<double> y = model(x).first.toDoubles();
    return std::ranges::count(y, 0.0);
  };
  WithScalars net;
  {
    auto model = trainingModel(net, Options(), optim::SGD(0.0));
    EXPECT_GT(zeros(model), 0);
    net.eval();
    EXPECT_GT(zeros(model), 0);
  }
  auto model = trainingModel(net, Options(), optim::SGD(0.0));
  EXPECT_EQ(zeros(model), 0);
  net.train();
  EXPECT_EQ(zeros(model), 0);
}

TEST(Parameters, ReadBeforeTheFirstCompileAreThoseItStartsFrom) {
  Line net;
  auto model = trainingModel(net, Options().randomSeed(99), optim::SGD(0.0));
  const HostTensor promised = net.fc.weight.value();
  model(column({1}), column({1}));
  EXPECT_TRUE(net.fc.weight.value().sameBits(promised));
  Line other;
  EXPECT_FALSE(other.fc.weight.value().sameBits(promised));
}

TEST(Optimizers, OfModelsOfOneModuleUseTheirOwnLearningRates) {
  Line net;
  net.fc.weight.setValue(column({0}));
  net.fc.bias->setValue(HostTensor(DType::F32, Shape{1}));
  const auto weightAfterACallWith = [&](double lr) {
    auto model = trainingModel(net, Options(), optim::SGD(lr));
    const HostTensor one = column({1});
    model(one, one);
    return net.fc.weight.value().at(0);
  };
  EXPECT_EQ(weightAfterACallWith(0.0), 0.0);
  EXPECT_EQ(weightAfterACallWith(0.25), 0.5);
  EXPECT_EQ(weightAfterACallWith(0.0), 0.5);
}

TEST(Optimizers, TakeNewValuesAtTheNextCall) {
  Line net;
  net.fc.weight.setValue(column({0}));
  net.fc.bias->setValue(HostTensor(DType::F32, Shape{1}));
  auto model = trainingModel(net, Options(), optim::SGD(0.0));
  const HostTensor one = column({1});
  model(one, one);
  EXPECT_EQ(net.fc.weight.value().at(0), 0.0);
  model.setOptimizer(optim::SGD(0.25));
  model(one, one);
  EXPECT_EQ(net.fc.weight.value().at(0), 0.5);
  EXPECT_THROW(model.setOptimizer(optim::AdamW(0.1)), InvalidArgument);
}

TEST(LrSchedules, TakeEffectUpdateByUpdate) {
  // One weight and x = 1, y = 0: w <- w (1 - 2 lr). The rate is 1/4, then 1/8, then 1/16.
  OneWeight net;
  net.fc.weight.setValue(column({1}));
  auto model = trainingModel(net, Options(), optim::SGD(0.25));
  model.setLrSchedule(optim::LrSchedule::step(1, 0.5));
  double expected = 1.0;
  for (const double lr : {0.25, 0.125, 0.0625}) {
    model(column({1}), column({0}));
    expected *= 1 - 2 * lr;
    EXPECT_EQ(net.fc.weight.value().at(0), expected);
  }
}

}  // namespace
}  // namespace sluice
