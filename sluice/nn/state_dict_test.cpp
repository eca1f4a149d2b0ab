#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/nn/module.h"
#include "sluice/nn/modules.h"
#include "tests/support/message_of.h"

namespace sluice::nn {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct SavedNet : Module {
  struct Encoder : Module {
    using Module::Module;
    Linear fc{*this, "fc", 3, 2};
    BatchNorm norm{*this, "norm", 2};
  };
  Encoder encoder{*this, "encoder"};
  Conv2d conv{*this, "conv", 1, 4, 3};
};

std::vector<std::string> namesOf(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    names.push_back(name);
  }
  return names;
}

std::vector<ir::Variable> variablesOf(const Module& module) {
  std::vector<ir::Variable> variables;
  for (const auto& list : {module.parameters(), module.buffers()}) {
    for (const Parameter* parameter : list) {
      variables.push_back(parameter->variable());
    }
  }
  return variables;
}

TEST(StateDict, HasWeightsAndBuffersByTheNamesAndShapesOfPyTorch) {
  const SavedNet net;
  const NamedTensors state = stateDict(net);
  EXPECT_THAT(namesOf(state),
              ElementsAre("conv.bias",
                          "conv.weight",
                          "encoder.fc.bias",
                          "encoder.fc.weight",
                          "encoder.norm.bias",
                          "encoder.norm.num_batches_tracked",
                          "encoder.norm.running_mean",
                          "encoder.norm.running_var",
                          "encoder.norm.weight"));
  EXPECT_EQ(state.at("conv.weight").shape(), Shape({4, 1, 3, 3}));
  EXPECT_EQ(state.at("encoder.fc.weight").shape(), Shape({2, 3}));
  EXPECT_EQ(stateDict(net.encoder).at("fc.weight").hash(), state.at("encoder.fc.weight").hash());
}

TEST(StateDict, IsLoadedIntoAnotherModuleOfTheSameLayers) {
  SavedNet from;
  from.setSeed(7);
  from.encoder.norm.runningMean.setValue(HostTensor::of<float>(Shape{2}, {3, 4}));
  SavedNet to;
  EXPECT_NE(stateDict(to).at("conv.weight").hash(), stateDict(from).at("conv.weight").hash());
  loadStateDict(to, stateDict(from));
  for (const auto& [name, tensor] : stateDict(from)) {
    EXPECT_TRUE(tensor.sameBits(stateDict(to).at(name))) << name;
  }
  SavedNet other;
  loadStateDict(other.encoder, stateDict(from.encoder));
  EXPECT_EQ(other.encoder.norm.runningMean.value().at(1), 4);
}

TEST(StateDict, ThatDoesNotFitChangesNothing) {
  SavedNet net;
  const NamedTensors before = stateDict(net);
  NamedTensors state;
  for (const auto& [name, tensor] : before) {
    state.emplace(name, HostTensor::full(tensor.type(), 9));
  }
  const auto refused = [&](const NamedTensors& given, const auto& message) {
    EXPECT_THAT(messageOf([&] { loadStateDict(net, given); }), message);
    for (const auto& [name, tensor] : stateDict(net)) {
      EXPECT_TRUE(tensor.sameBits(before.at(name))) << name;
    }
  };
  refused({}, HasSubstr("is empty"));
  NamedTensors missing = state;
  missing.erase("encoder.norm.running_var");
  refused(missing, HasSubstr("missing: encoder.norm.running_var; nothing"));
  NamedTensors more = state;
  more.emplace("head.weight", HostTensor::scalar(1.0F));
  refused(more, HasSubstr("unexpected: head.weight;"));
  NamedTensors turned = state;
  turned.insert_or_assign("encoder.fc.weight", HostTensor(DType::F32, Shape{3, 2}));
  turned.insert_or_assign("conv.bias", HostTensor(DType::F64, Shape{4}));
  refused(turned,
          AllOf(HasSubstr("encoder.fc.weight (f32[3, 2] instead of f32[2, 3])"),
                HasSubstr("conv.bias (f64[4] instead of f32[4])")));
  NamedTensors foreign;
  for (int i = 0; i < 20; ++i) {
    foreign.emplace("layer" + std::to_string(i), HostTensor::scalar(1.0F));
  }
  refused(foreign, AllOf(HasSubstr("and 1 more; unexpected"), HasSubstr("and 12 more;")));
}

TEST(StateDict, ThatNeedNotBeCompleteSaysWhatWasLeftOut) {
  SavedNet net;
  NamedTensors part;
  part.emplace("conv.bias", HostTensor::full({DType::F32, Shape{4}}, 2));
  part.emplace("extra", HostTensor::scalar(1.0F));
  const UnmatchedNames unmatched = loadStateDict(net, part, Strict::No);
  EXPECT_EQ(net.conv.bias->value().at(3), 2);
  EXPECT_EQ(unmatched.missing.size(), 8U);
  EXPECT_THAT(unmatched.unexpected, ElementsAre("extra"));
  part.insert_or_assign("conv.bias", HostTensor(DType::F32, Shape{5}));
  EXPECT_THAT(messageOf([&] { loadStateDict(net, part, Strict::No); }),
              HasSubstr("of another type: conv.bias"));
}

TEST(StateDict, OfPyTorchComesWithPrefixesAndOtherFloats) {
  const SavedNet net;
  NamedTensors torch;
  for (const auto& [name, tensor] : stateDict(net)) {
    torch.emplace("_orig_mod.module." + name,
                  isFloat(tensor.dtype()) ? cast(tensor, DType::F64) : tensor);
  }
  const std::vector<ir::Variable> variables = variablesOf(net);
  const NamedTensors imported = importTorch(variables, torch);
  requireStateDict(variables, imported);
  for (const auto& [name, tensor] : stateDict(net)) {
    EXPECT_TRUE(tensor.sameBits(imported.at(name))) << name;
  }
}

TEST(StateDict, ForPyTorchHasNoUnsignedIntegersButBytes) {
  const NamedTensors exported = exportTorch({{"a", HostTensor::scalar<std::uint32_t>(7)},
                                             {"b", HostTensor::scalar<std::uint8_t>(8)},
                                             {"c", HostTensor::scalar(1.5F)}});
  EXPECT_TRUE(exported.at("a").sameBits(HostTensor::scalar<std::int64_t>(7)));
  EXPECT_TRUE(exported.at("b").sameBits(HostTensor::scalar<std::uint8_t>(8)));
  EXPECT_TRUE(exported.at("c").sameBits(HostTensor::scalar(1.5F)));
}

}  // namespace
}  // namespace sluice::nn
