#include "sluice/optim/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/value.h"
#include "sluice/optim/optimizers.h"
#include "tests/support/message_of.h"

namespace sluice::optim {
namespace {

using ::testing::HasSubstr;

std::vector<ir::Variable> someWeights() {
  return {{"a.weight", {DType::F32, Shape{2}}}, {"a.bias", {DType::F32, Shape{2}}}};
}

std::vector<std::unique_ptr<Optimizer>> oneOfEach() {
  std::vector<std::unique_ptr<Optimizer>> all;
  all.push_back(std::make_unique<SGD>(SgdOptions{
      .lr = 0.1, .momentum = 0.9, .nesterov = true, .maxGradNorm = 2, .accumType = DType::F16}));
  all.push_back(std::make_unique<SGD>(SgdOptions{
      .momentum = 0.5, .useCombinedAccum = true, .velocityScaling = 4, .lossScaling = 8}));
  all.push_back(std::make_unique<RMSprop>(
      RmsPropOptions{.alpha = 0.5, .centered = true, .firstOrderMomentumAccumType = DType::F16}));
  all.push_back(std::make_unique<Adam>(AdamOptions{.lr = 0.5, .biasCorrection = false}));
  all.push_back(std::make_unique<AdamW>(
      AdamOptions{.beta1 = 0.25, .secondOrderMomentumAccumType = DType::F16}));
  all.push_back(std::make_unique<LAMB>(LambOptions{.maxWeightNorm = 3}));
  for (const std::unique_ptr<Optimizer>& each : all) {
    each->addGroup(endingWith(".bias"), {{"lr", 0.25}, {"weight_decay", 0.0}});
    each->markAsConstant("weight_decay");
  }
  return all;
}

TEST(OptimizerRecord, MakesTheSameOptimizer) {
  for (const std::unique_ptr<Optimizer>& given : oneOfEach()) {
    SCOPED_TRACE(given->name());
    const OptimizerRecord record = recordOf(*given, someWeights());
    const std::unique_ptr<Optimizer> made = makeOptimizer(record);
    EXPECT_EQ(recordOf(*made, someWeights()), record);
    EXPECT_EQ(made->scalars(0.5), given->scalars(0.5));
    EXPECT_EQ(made->groupOf("a.bias"), 1U);
    EXPECT_EQ(made->groupOf("a.weight"), 0U);
    EXPECT_TRUE(made->isConstant("weight_decay", 1));
    // Compares the structure of the rule, too.
    EXPECT_NO_THROW(static_cast<void>(given->succeededBy(*made)));
  }
}

TEST(OptimizerRecord, KeepsTypesOfAccumulators) {
  Adam adam;
  adam.setAccumulationType([](const ir::Variable& weight) {
    return weight.name == "a.bias" ? std::optional(DType::F16) : std::nullopt;
  });
  adam.castGradients();
  const std::unique_ptr<Optimizer> made = makeOptimizer(recordOf(adam, someWeights()));
  EXPECT_EQ(made->accumulatorType(someWeights()[0]), DType::F32);
  EXPECT_EQ(made->accumulatorType(someWeights()[1]), DType::F16);
}

TEST(OptimizerRecord, OfNoOptimizerIsRefused) {
  const OptimizerRecord sound = recordOf(SGD(0.1), someWeights());
  const auto refusal = [&](auto change) {
    OptimizerRecord record = sound;
    change(record);
    return testing::messageOf([&] { makeOptimizer(record); });
  };
  using Record = OptimizerRecord;
  EXPECT_THAT(refusal([](Record& r) { r.rule = "Magic"; }), HasSubstr("no optimizer 'Magic'"));
  EXPECT_THAT(refusal([](Record& r) { r.settings.erase("combined"); }), HasSubstr("'combined'"));
  EXPECT_THAT(refusal([](Record& r) { r.settings["velocity"] = 99; }), HasSubstr("no type"));
  EXPECT_THAT(refusal([](Record& r) { r.groups.clear(); }), HasSubstr("no group"));
  EXPECT_THAT(refusal([](Record& r) { r.groups[0].values["lr"] = -1; }), HasSubstr("lr is -1"));
  EXPECT_THAT(refusal([](Record& r) { r.groups[0].values.erase("lr"); }), HasSubstr("attributes"));
  EXPECT_THAT(refusal([](Record& r) { r.groups[0].constant["lr"] = true; }), HasSubstr("marked"));
  EXPECT_THAT(refusal([](Record& r) { r.groupOf["a"] = 3; }), HasSubstr("group 3 of 1"));
}

/// A rule that this library does not know.
class OwnRule : public SGD {
 public:
  std::optional<Attributes> settings() const override { return std::nullopt; }
};

TEST(OptimizerRecord, OfCodeOfTheUserIsRefused) {
  EXPECT_THAT(testing::messageOf<Unsupported>([] { recordOf(OwnRule(), someWeights()); }),
              HasSubstr("SGD is, or calls, code of the user"));
}

}  // namespace
}  // namespace sluice::optim
