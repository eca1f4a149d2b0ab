// Optimizer state in PyTorch's layout; tests/torch compares with PyTorch itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/log.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct TorchNet : nn::Module {
  nn::Linear a{*this, "a", 2, 3};
  nn::Linear b{*this, "b", 3, 1};
  std::pair<nn::Tensor, nn::Tensor> forward(const nn::Tensor& x) {
    const nn::Tensor y = b(nn::tanh(a(x)));
    return {y, nn::mean(y * y)};
  }
};

HostTensor torchInput() {
  return HostTensor::of<float>(Shape{2, 2}, {1, -2, 0.5, 3});
}

std::vector<std::string> torchNamesOf(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    names.push_back(name);
  }
  return names;
}

TEST(TorchState, NumbersParametersGroupByGroup) {
  TorchNet net;
  optim::AdamW rule(0.01);
  rule.addGroup(optim::endingWith(".bias"), {{"weight_decay", 0.0}, {"beta1", 0.5}});
  auto model = trainingModel(net, Options(), rule);
  model(torchInput());
  model(torchInput());
  const OptimizerStateDict torch = exportTorch(model);
  EXPECT_THAT(torchNamesOf(torch.at("state")),
              ElementsAre("0.exp_avg",
                          "0.exp_avg_sq",
                          "0.step",
                          "1.exp_avg",
                          "1.exp_avg_sq",
                          "1.step",
                          "2.exp_avg",
                          "2.exp_avg_sq",
                          "2.step",
                          "3.exp_avg",
                          "3.exp_avg_sq",
                          "3.step"));
  // Weights of group 0 first: a.weight, b.weight; then a.bias, b.bias.
  const NamedTensors own = model.optimizerStateDict().at("ipu_state");
  EXPECT_TRUE(torch.at("state").at("1.exp_avg").sameBits(own.at("b.weight.exp_avg")));
  EXPECT_TRUE(torch.at("state").at("2.exp_avg_sq").sameBits(own.at("a.bias.exp_avg_sq")));
  EXPECT_EQ(torch.at("state").at("2.step").at(0), 2);
  const NamedTensors& groups = torch.at("param_groups");
  EXPECT_THAT(groups.at("0.params").toDoubles(), ElementsAre(0, 1));
  EXPECT_THAT(groups.at("1.params").toDoubles(), ElementsAre(2, 3));
  EXPECT_THAT(groups.at("0.betas").toDoubles(), ElementsAre(0.9, 0.999));
  EXPECT_THAT(groups.at("1.betas").toDoubles(), ElementsAre(0.5, 0.999));
  EXPECT_EQ(groups.at("0.weight_decay").at(0), 0.01);
  EXPECT_EQ(groups.at("0.amsgrad").dtype(), DType::Bool);
}

template <class Rule>
void expectRoundTrip(const Rule& rule) {
  SCOPED_TRACE(rule.name());
  TorchNet net;
  auto model = trainingModel(net, Options(), rule);
  model(torchInput());
  model(torchInput());
  const NamedTensors weights = model.stateDict();
  const OptimizerStateDict torch = exportTorch(model);
  model(torchInput());
  TorchNet otherNet;
  Rule changed = rule;
  changed.setLr(0.5);
  auto other = trainingModel(otherNet, Options(), changed);
  other.loadStateDict(weights);
  other.loadOptimizerStateDict(importTorch(other, torch));
  EXPECT_EQ(other.optimizer()->lr(), rule.lr());
  other(torchInput());
  for (const auto& [name, tensor] : model.stateDict()) {
    EXPECT_TRUE(tensor.sameBits(other.stateDict().at(name))) << name;
  }
}

TEST(TorchState, GoesThereAndBackWithoutAChange) {
  expectRoundTrip(optim::SGD(0.1));
  expectRoundTrip(optim::SGD({.lr = 0.1, .momentum = 0.9, .nesterov = true}));
  expectRoundTrip(
      optim::SGD({.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .torchCompatible = true}));
  expectRoundTrip(optim::Adam({.lr = 0.01, .weightDecay = 0.1}));
  expectRoundTrip(optim::AdamW(0.01));
  expectRoundTrip(optim::RMSprop({.lr = 0.01, .momentum = 0.5, .centered = true}));
}

/// The dictionary of two steps of AdamW, to be spoilt.
class TorchImport : public ::testing::Test {
 protected:
  TorchImport() : model_(trainingModel(net_, Options(), optim::AdamW(0.01))) {
    model_(torchInput());
    torch_ = exportTorch(model_);
  }
  std::string refusal() {
    return messageOf([&] { importTorch(model_, torch_); });
  }
  NamedTensors& state() { return torch_["state"]; }
  NamedTensors& groups() { return torch_["param_groups"]; }

  TorchNet net_;
  TypedModel<TorchNet> model_;
  OptimizerStateDict torch_;
};

TEST_F(TorchImport, RefusesDictionariesWithoutTheirSections) {
  torch_.erase("param_groups");
  EXPECT_THAT(refusal(), HasSubstr("no 'param_groups'"));
  torch_ = model_.optimizerStateDict();
  EXPECT_THAT(refusal(), HasSubstr("no 'param_groups'"));
}

TEST_F(TorchImport, RefusesStateOfAnotherRule) {
  state().emplace("0.max_exp_avg_sq", HostTensor(DType::F32, Shape{3, 2}));
  EXPECT_THAT(refusal(), HasSubstr("AdamW keeps no 'max_exp_avg_sq' of 'a.weight'"));
  groups().emplace("0.momentum", HostTensor::scalar(0.9));
  EXPECT_THAT(refusal(), HasSubstr("AdamW has no momentum"));
  groups().insert_or_assign("0.amsgrad", HostTensor::scalar(true));
  EXPECT_THAT(refusal(), HasSubstr("amsgrad is true in the dictionary and false"));
}

TEST_F(TorchImport, RefusesOtherParameters) {
  groups().insert_or_assign("0.params", HostTensor::of<std::int64_t>(Shape{3}, {0, 1, 2}));
  EXPECT_THAT(refusal(), HasSubstr("3 parameters there and 4 weights"));
  groups().insert_or_assign("0.params", HostTensor::of<std::int64_t>(Shape{1}, {-1}));
  EXPECT_THAT(refusal(), HasSubstr("number -1"));
  groups().emplace("7.lr", HostTensor::scalar(0.1));
  groups().erase("0.params");
  EXPECT_THAT(refusal(), HasSubstr("has 1 groups"));
}

TEST_F(TorchImport, RefusesNamesShapesAndStepsThatDoNotFit) {
  NamedTensors good = state();
  state().emplace("first.exp_avg", HostTensor::scalar(1.0F));
  EXPECT_THAT(refusal(), HasSubstr("'first.exp_avg'"));
  state() = good;
  state().emplace("9.exp_avg", HostTensor::scalar(1.0F));
  EXPECT_THAT(refusal(), HasSubstr("of no parameter"));
  state() = good;
  state().insert_or_assign("0.exp_avg", HostTensor(DType::F32, Shape{2, 3}));
  EXPECT_THAT(refusal(), HasSubstr("'a.weight.exp_avg' is f32[2, 3] there and f32[3, 2] here"));
  state() = good;
  state().insert_or_assign("1.step", HostTensor::scalar(5.0F));
  EXPECT_THAT(refusal(), HasSubstr("1 and 5 steps"));
  state().insert_or_assign("1.step", HostTensor(DType::F32, Shape{2}));
  EXPECT_THAT(refusal(), HasSubstr("expected a number"));
}

TEST_F(TorchImport, NamesUnknownAttributesInAWarningUnlessRelaxed) {
  groups().emplace("0.capturable", HostTensor::scalar(false));
  ::testing::internal::CaptureStderr();
  importTorch(model_, torch_);
  importTorch(model_, torch_);
  const std::string warned = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(warned, HasSubstr("AdamW has no attribute 'capturable'"));
  EXPECT_EQ(warned.find("capturable"), warned.rfind("capturable"));  // once
  TorchNet relaxedNet;
  auto relaxed =
      trainingModel(relaxedNet, Options().relaxOptimizerAttributesChecks(true), optim::AdamW(0.01));
  ::testing::internal::CaptureStderr();
  importTorch(relaxed, torch_);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  log::setLevels("debug");
  ::testing::internal::CaptureStderr();
  importTorch(relaxed, torch_);
  log::setLevels("info");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("'capturable'"));
}

TEST(TorchState, IsThatOfRulesThatPyTorchHas) {
  TorchNet net;
  auto lamb = trainingModel(net, Options(), optim::LAMB(0.01));
  EXPECT_THAT(messageOf<Unsupported>([&] { exportTorch(lamb); }), HasSubstr("LAMB"));
  lamb.destroy();
  auto combined =
      trainingModel(net, Options(), optim::SGD({.momentum = 0.9, .useCombinedAccum = true}));
  EXPECT_THAT(messageOf<Unsupported>([&] { importTorch(combined, {}); }), HasSubstr("SGD"));
  auto inference = inferenceModel(net, Options());
  EXPECT_THAT(messageOf([&] { exportTorch(inference); }), HasSubstr("inference"));
}

}  // namespace
}  // namespace sluice
