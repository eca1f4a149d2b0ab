// State dictionaries of models: what they hold, what is refused, and that nothing changes then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Dropout and batch norm make the random numbers and the buffers count.
struct SavedNet : nn::Module {
  nn::Linear fc1{*this, "fc1", 4, 6};
  nn::BatchNorm norm{*this, "norm", 6};
  nn::Dropout dropout{*this, "dropout", 0.3};
  nn::Linear fc2{*this, "fc2", 6, 3};
  nn::Linear unused{*this, "unused", 2, 2};

  std::pair<nn::Tensor, nn::Tensor> forward(const nn::Tensor& x, const nn::Tensor& labels) {
    const nn::Tensor y = fc2(dropout(norm(nn::tanh(fc1(x)))));
    return {y, nn::crossEntropy(y, labels)};
  }
};

std::vector<HostTensor> batch(int number) {
  HostTensor x(DType::F32, Shape{8, 4});
  HostTensor labels(DType::I64, Shape{8});
  for (std::int64_t i = 0; i < 32; ++i) {
    x.set(i, static_cast<double>((i * 7 + number * 5) % 13) / 6.5 - 1);
    labels.set(i % 8, static_cast<double>((i + number) % 3));
  }
  return {x, labels};
}

/// Every value by its bits.
std::map<std::string, std::uint64_t> bitsOf(const TrainingState& state) {
  std::map<std::string, std::uint64_t> bits;
  for (const auto& [name, tensor] : state.model) {
    bits["model/" + name] = tensor.hash();
  }
  for (const auto& [name, tensor] : flattened(state.optimizer)) {
    bits["optimizer/" + name] = tensor.hash();
  }
  bits["seed"] = state.rng.seed;
  bits["microBatch"] = static_cast<std::uint64_t>(state.rng.microBatch);
  return bits;
}

std::vector<std::string> namesOf(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    names.push_back(name);
  }
  return names;
}

std::vector<std::unique_ptr<optim::Optimizer>> rules() {
  std::vector<std::unique_ptr<optim::Optimizer>> all;
  all.push_back(std::make_unique<optim::SGD>(0.1));
  all.push_back(std::make_unique<optim::SGD>(
      optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .torchCompatible = true}));
  all.push_back(std::make_unique<optim::SGD>(optim::SgdOptions{
      .lr = 0.1, .momentum = 0.9, .weightDecay = 0.01, .useCombinedAccum = true}));
  optim::AdamW adam(0.01);
  adam.addGroup(optim::endingWith(".bias"), {{"weight_decay", 0.0}});
  all.push_back(adam.clone());
  all.push_back(std::make_unique<optim::RMSprop>(
      optim::RmsPropOptions{.lr = 0.01, .momentum = 0.5, .centered = true}));
  all.push_back(std::make_unique<optim::LAMB>(0.01));
  return all;
}

TEST(TrainingState, LoadedIntoAFreshModelContinuesWithTheSameBits) {
  for (const auto& rule : rules()) {
    for (const bool compiledFirst : {false, true}) {
      SCOPED_TRACE(rule->name());
      Options options;
      options.randomSeed(3);
      options.training.gradientAccumulation(2);
      SavedNet net;
      auto model = trainingModel(net, options, *rule);
      model.setLrSchedule(optim::LrSchedule::step(2, 0.5));
      for (int i = 0; i < 3; ++i) {
        model.run(batch(i));
      }
      const TrainingState saved = model.trainingState();
      for (int i = 3; i < 6; ++i) {
        model.run(batch(i));
      }
      SavedNet freshNet;
      auto fresh = trainingModel(freshNet, options.clone().randomSeed(99), *rule);
      fresh.setLrSchedule(optim::LrSchedule::step(2, 0.5));
      if (compiledFirst) {
        fresh.run(batch(7));
      }
      fresh.loadTrainingState(saved);
      EXPECT_EQ(bitsOf(fresh.trainingState()), bitsOf(saved));
      EXPECT_EQ(fresh.updates(), 3);
      for (int i = 3; i < 6; ++i) {
        fresh.run(batch(i));
      }
      EXPECT_EQ(bitsOf(fresh.trainingState()), bitsOf(model.trainingState()));
    }
  }
}

TEST(TrainingState, HoldsTheFactorOfAutomaticLossScaling) {
  struct Half : nn::Module {
    nn::Parameter& w = addParameter("w", {DType::F16, Shape{2}}, ir::Initializer::constant(0.5));
    std::pair<nn::Tensor, nn::Tensor> forward(const nn::Tensor& x) {
      const nn::Tensor y = x * w;
      return {y, nn::mean(nn::cast(y, DType::F32))};
    }
  };
  const auto input = HostTensor::full({DType::F16, Shape{2, 2}}, 1);
  Options options;
  options.training.setAutomaticLossScaling(true);
  Half net;
  auto model = trainingModel(net, options, optim::SGD(0.01));
  model(input);
  model(input);
  const TrainingState saved = model.trainingState();
  EXPECT_EQ(saved.optimizer.at("ipu_state").at("optimizer.loss_scale_factor").at(0), 4);
  model(input);
  Half freshNet;
  auto fresh = trainingModel(freshNet, options, optim::SGD(0.01));
  fresh.loadTrainingState(saved);
  fresh(input);
  EXPECT_EQ(bitsOf(fresh.trainingState()), bitsOf(model.trainingState()));
}

TEST(OptimizerStateDict, HasTensorsAndNumbersInTwoSections) {
  SavedNet net;
  auto model = trainingModel(net, Options(), optim::AdamW(0.02));
  model.run(batch(0));
  const OptimizerStateDict state = model.optimizerStateDict();
  EXPECT_EQ(state.size(), 2U);
  EXPECT_THAT(namesOf(state.at("ipu_state")),
              ElementsAre("fc1.bias.exp_avg",
                          "fc1.bias.exp_avg_sq",
                          "fc1.weight.exp_avg",
                          "fc1.weight.exp_avg_sq",
                          "fc2.bias.exp_avg",
                          "fc2.bias.exp_avg_sq",
                          "fc2.weight.exp_avg",
                          "fc2.weight.exp_avg_sq",
                          "norm.bias.exp_avg",
                          "norm.bias.exp_avg_sq",
                          "norm.weight.exp_avg",
                          "norm.weight.exp_avg_sq",
                          "optimizer.step"));
  EXPECT_THAT(namesOf(state.at("ipu_param")),
              ElementsAre("beta1",
                          "beta2",
                          "eps",
                          "loss_scaling",
                          "lr",
                          "max_grad_norm",
                          "updates",
                          "weight_decay"));
  EXPECT_EQ(state.at("ipu_param").at("lr").at(0), 0.02);
  EXPECT_EQ(state.at("ipu_state").at("optimizer.step").at(0), 1);
}

/// What is refused leaves the model as it was, compiled or not.
class Refused : public ::testing::TestWithParam<bool> {
 protected:
  Refused() : model_(trainingModel(net_, Options(), optim::AdamW(0.01))) {
    if (GetParam()) {
      model_.run(batch(0));
    }
    good_ = model_.optimizerStateDict();
    before_ = bitsOf(model_.trainingState());
  }
  void expect(const OptimizerStateDict& state, const ::testing::Matcher<std::string>& message) {
    EXPECT_THAT(messageOf([&] { model_.loadOptimizerStateDict(state); }), message);
    TrainingState all = model_.trainingState();
    for (auto& [name, tensor] : all.model) {
      tensor = HostTensor::full(tensor.type(), 7);
    }
    all.optimizer = state;
    EXPECT_THAT(messageOf([&] { model_.loadTrainingState(all); }), message);
    EXPECT_EQ(bitsOf(model_.trainingState()), before_);
  }

  SavedNet net_;
  TypedModel<SavedNet> model_;
  OptimizerStateDict good_;
  std::map<std::string, std::uint64_t> before_;
};

TEST_P(Refused, AreEmptyAndForeignDictionaries) {
  expect({}, HasSubstr("the dictionary is empty"));
  const OptimizerStateDict torch = {{"state", {{"0.exp_avg", HostTensor::scalar(1.0F)}}},
                                    {"param_groups", {{"0.lr", HostTensor::scalar(0.1)}}}};
  expect(torch, AllOf(HasSubstr("only IPU optimizer states"), HasSubstr("importTorch")));
  expect({{"ipu_state", good_.at("ipu_state")}}, HasSubstr("only IPU optimizer states"));
  expect({{"ipu_param", good_.at("ipu_param")}}, HasSubstr("only IPU optimizer states"));
}

TEST_P(Refused, AreDictionariesOfOtherRulesAndWeights) {
  SavedNet other;
  auto sgd = trainingModel(other, Options(), optim::SGD({.momentum = 0.9}));
  expect(sgd.optimizerStateDict(), HasSubstr("has no 'beta1'"));
  OptimizerStateDict more = good_;
  more["ipu_param"].emplace("nu", HostTensor::scalar(1.0));
  expect(more, HasSubstr("9 numbers"));
  OptimizerStateDict renamed = good_;
  renamed["ipu_state"].emplace("fc3.weight.exp_avg", HostTensor::scalar(1.0F));
  expect(renamed, HasSubstr("unexpected: fc3.weight.exp_avg"));
  OptimizerStateDict reshaped = good_;
  reshaped["ipu_state"].insert_or_assign("fc1.bias.exp_avg", HostTensor(DType::F32, Shape{7}));
  expect(reshaped, HasSubstr("fc1.bias.exp_avg (f32[7] instead of f32[6])"));
}

TEST_P(Refused, AreNumbersOutOfRangeAndOfOtherTypes) {
  OptimizerStateDict range = good_;
  range["ipu_param"].insert_or_assign("beta1", HostTensor::scalar(1.5));
  expect(range, HasSubstr("beta1 is 1.5"));
  OptimizerStateDict type = good_;
  type["ipu_param"].insert_or_assign("lr", HostTensor::scalar(0.5F));
  expect(type, HasSubstr("'lr' of 'ipu_param' is f32[], expected f64[]"));
  OptimizerStateDict updates = good_;
  updates["ipu_param"].insert_or_assign("updates", HostTensor::scalar<std::int64_t>(-1));
  expect(updates, HasSubstr("-1 updates"));
}

INSTANTIATE_TEST_SUITE_P(StateDicts, Refused, ::testing::Bool(), [](const auto& test) {
  return test.param ? "Compiled" : "NotCompiled";
});

TEST(OptimizerStateDict, WithAnotherConstantIsRefusedOnceCompiled) {
  SavedNet net;
  optim::AdamW rule(0.01);
  rule.markAsConstant("beta2");
  auto model = trainingModel(net, Options(), rule);
  OptimizerStateDict state = model.optimizerStateDict();
  state["ipu_param"].insert_or_assign("beta2", HostTensor::scalar(0.5));
  model.run(batch(0));
  EXPECT_THAT(messageOf([&] { model.loadOptimizerStateDict(state); }),
              HasSubstr("beta2 of group 0 is constant"));
}

TEST(OptimizerStateDict, WithoutAllStateIsRefusedWhenThatIsKnown) {
  SavedNet net;
  auto model = trainingModel(net, Options(), optim::AdamW(0.01));
  OptimizerStateDict state = model.optimizerStateDict();
  EXPECT_EQ(state.at("ipu_state").count("unused.weight.exp_avg"), 1U);
  state["ipu_state"].erase("unused.weight.exp_avg");  // which weights are used is not known yet
  model.loadOptimizerStateDict(state);
  state["ipu_state"].erase("fc1.bias.exp_avg");
  SavedNet otherNet;
  auto other = trainingModel(otherNet, Options(), optim::AdamW(0.01));
  other.loadOptimizerStateDict(state);
  EXPECT_THAT(messageOf([&] { other.run(batch(0)); }), HasSubstr("has no 'fc1.bias.exp_avg'"));
  model.run(batch(0));
  EXPECT_THAT(messageOf([&] { model.loadOptimizerStateDict(state); }),
              HasSubstr("missing: fc1.bias.exp_avg"));
}

TEST(OptimizerStateDict, IsOnlyOfTrainingModels) {
  SavedNet net;
  auto model = inferenceModel(net, Options());
  EXPECT_THAT(messageOf([&] { model.optimizerStateDict(); }), HasSubstr("inference"));
  EXPECT_THAT(messageOf([&] { model.loadOptimizerStateDict({}); }), HasSubstr("inference"));
  EXPECT_THAT(messageOf([&] { model.trainingState(); }), HasSubstr("inference"));
}

TEST(OptimizerStateDict, IsFlattenedForFiles) {
  const OptimizerStateDict state = {{"a", {{"x/y", HostTensor::scalar(1.0F)}}},
                                    {"b", {{"x", HostTensor::scalar(2.0F)}}}};
  EXPECT_THAT(namesOf(flattened(state)), ElementsAre("a/x/y", "b/x"));
  EXPECT_EQ(sectioned(flattened(state)).at("a").at("x/y").at(0), 1);
  EXPECT_THAT(messageOf([] {
                sectioned({{"x", HostTensor::scalar(1.0F)}});
              }),
              HasSubstr("'x' is in no section"));
}

TEST(ModelState, IsSharedByTrainingAndInferenceOfOneModule) {
  SavedNet net;
  auto training = trainingModel(net, Options(), optim::AdamW(0.01));
  auto inference = inferenceModel(net, Options());
  NamedTensors state = training.stateDict();
  state.insert_or_assign("fc2.bias", HostTensor::of<float>(Shape{3}, {1, 2, 3}));
  state.insert_or_assign("fc2.weight", HostTensor(DType::F32, Shape{3, 6}));
  training.loadStateDict(state);  // before the first compile
  EXPECT_EQ(net.fc2.bias->value().at(2), 3);
  EXPECT_EQ(inference.run(batch(0))[0].at(1), 2);
  state.insert_or_assign("fc2.bias", HostTensor::of<float>(Shape{3}, {4, 5, 6}));
  inference.loadStateDict(state);  // and after it
  EXPECT_EQ(inference.run(batch(0))[0].at(1), 5);
  EXPECT_EQ(training.stateDict().at("fc2.bias").at(0), 4);
  EXPECT_THAT(messageOf([&] { training.loadStateDict({}); }), HasSubstr("is empty"));
  state.erase("norm.running_var");
  EXPECT_THAT(messageOf([&] { training.loadStateDict(state); }),
              HasSubstr("missing: norm.running_var"));
}

TEST(ModelState, OfABuilderIsSavedAndLoaded) {
  const auto make = [](Builder& builder, float value) {
    const TensorId x = builder.addInputTensor({DType::F32, Shape{2}}, "x");
    const TensorId w =
        builder.addInitializedInputTensor(HostTensor::of<float>(Shape{2}, {value, value}), "w");
    const TensorId y = builder.aiOnnx().mul(x, w);
    builder.addOutputTensor(y);
    return y;
  };
  const auto input = HostTensor::of<float>(Shape{2}, {1, 2});
  Builder first;
  make(first, 3);
  const Model from = inferenceModel(first, Options());
  Builder second;
  make(second, 5);
  Model to = inferenceModel(second, Options());
  EXPECT_EQ(to.stateDict().at("w").at(0), 5);
  to.loadStateDict(from.stateDict());
  EXPECT_EQ(to.stateDict().at("w").at(0), 3);
  EXPECT_EQ(to.run({input})[0].at(1), 6);
  to.loadStateDict({{"w", HostTensor::of<float>(Shape{2}, {7, 7})}});
  EXPECT_EQ(to.run({input})[0].at(1), 14);
}

TEST(RngState, BringsBackTheSameDropout) {
  struct Random : nn::Module {
    nn::Parameter& w = addParameter("w", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
    nn::Dropout dropout{*this, "dropout", 0.5};
    std::pair<nn::Tensor, nn::Tensor> forward(const nn::Tensor& x) {
      const nn::Tensor y = dropout(x * w);
      return {y, nn::mean(y) * 0.0};
    }
  };
  const auto x = HostTensor::full({DType::F32, Shape{64, 1}}, 1);
  const auto maskOf = [&](std::uint64_t seed) {
    Random net;
    auto model = trainingModel(net, Options().randomSeed(seed));
    return model(x).first.hash();
  };
  EXPECT_EQ(maskOf(1), maskOf(1));
  EXPECT_NE(maskOf(1), maskOf(2));
  Random net;
  auto model = trainingModel(net, Options().randomSeed(1));
  model(x);
  const RngState saved = model.rngState();
  EXPECT_EQ(saved, (RngState{1, 1}));
  const std::uint64_t second = model(x).first.hash();
  EXPECT_NE(model(x).first.hash(), second);
  model.setRngState(saved);
  EXPECT_EQ(model(x).first.hash(), second);
  model.setRngState({2, 0});
  EXPECT_EQ(model(x).first.hash(), maskOf(2));
  EXPECT_THAT(messageOf([&] { model.setRngState({1, -1}); }), HasSubstr("micro-batch -1"));
}

}  // namespace
}  // namespace sluice
