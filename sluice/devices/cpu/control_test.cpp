// The CPU's loops: where carried values lie, what runs once, and choices as text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/devices/cpu/kernels/body_plan.h"
#include "sluice/ir/parser.h"
#include "sluice/ops/op_list.h"
#include "tests/support/message_of.h"

namespace sluice::devices::cpu {
namespace {

using sluice::testing::messageOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

BodyPlan planOf(std::string_view body, const BodyFrame& frame) {
  const device::KernelTable table("cpu", tableEntries(), {});
  return planBody(
      ir::parse(body, ops::opSet()), frame, [&](const ir::OpView& op) { return table.choose(op); });
}

std::vector<std::string> opsOf(const std::vector<device::KernelCall>& calls) {
  std::vector<std::string> names;
  for (const device::KernelCall& call : calls) {
    names.emplace_back(call.def->name);
  }
  return names;
}

TEST(BodyPlan, RunsOnceWhatDependsOnFixedInputs) {
  const BodyPlan plan = planOf(R"(graph "b" {
    %0 = input() "in0" : f32[16]
    %1 = input() "in1" : f32[16]
    %2 = exp(%1) : f32[16]
    %3 = mul(%0, %2) : f32[16]
    output "out0" = %3
  })",
                               {.fixedFrom = 1, .carried = 1, .rows = true});
  EXPECT_THAT(opsOf(plan.before), ElementsAre("exp"));
  EXPECT_THAT(opsOf(plan.each), ElementsAre("mul"));
  EXPECT_FALSE(plan.spare[0].has_value()) << "a product may overwrite its operand";
  EXPECT_EQ(plan.scratchBytes, 64U) << "only what runs once is in scratch";
}

TEST(BodyPlan, GivesCarriedValuesASecondPlaceIfTheyAreReadLater) {
  const BodyPlan plan = planOf(R"(graph "b" {
    %0 = input() "in0" : f32[16]
    %1 = input() "in1" : f32[16]
    %2 = add(%0, %1) : f32[16]
    %3 = mul(%0, %2) : f32[16]
    output "out0" = %2
    output "out1" = %3
  })",
                               {.fixedFrom = 2, .carried = 2, .rows = true});
  EXPECT_TRUE(plan.spare[0].has_value()) << "the product reads the old value after the sum";
  EXPECT_FALSE(plan.spare[1].has_value());
  EXPECT_EQ(plan.scratchBytes, 64U);
}

TEST(BodyPlan, CopiesRowsThatAreNotAligned) {
  const BodyPlan plan = planOf(R"(graph "b" {
    %0 = input() "in0" : f32[5]
    %1 = exp(%0) : f32[5]
    output "out0" = %1
    output "out1" = %0
  })",
                               {.fixedFrom = 1, .rows = true});
  EXPECT_THAT(opsOf(plan.each), ElementsAre("reorder", "reorder", "exp", "reorder"));
  const BodyPlan whole = planOf(R"(graph "b" {
    %0 = input() "in0" : f32[5]
    %1 = exp(%0) : f32[5]
    output "out0" = %1
  })",
                                {.fixedFrom = 1});
  EXPECT_THAT(opsOf(whole.each), ElementsAre("exp"));
}

TEST(BodyPlan, KeepsAValueThatDoesNotChange) {
  const BodyPlan plan = planOf(R"(graph "b" {
    %0 = input() "in0" : f32[16]
    %1 = input() "in1" : f32[16]
    %2 = identity(%0) : f32[16]
    %3 = add(%2, %1) : f32[16]
    output "out0" = %2
    output "out1" = %3
  })",
                               {.fixedFrom = 2, .carried = 2, .rows = true});
  EXPECT_THAT(plan.unchanged, ElementsAre(true, false));
  EXPECT_THAT(opsOf(plan.each), ElementsAre("add"));
}

TEST(Choices, AreReadAsTheyAreWritten) {
  device::Choice choice{.implementation = "onednn",
                        .inputs = {device::Layout::plain(),
                                   {.kind = device::Layout::Kind::Opaque,
                                    .blob = std::string("\0;: x", 5),
                                    .opaqueBytes = 640}},
                        .outputs = {device::Layout::channelsLast()},
                        .scratchBytes = 7,
                        .config = "tiles 3; 4"};
  const std::vector<device::Choice> all = {choice, {.implementation = "blocks"}};
  EXPECT_EQ(parseChoices(choicesText(all)), all);
  EXPECT_TRUE(parseChoices("").empty());
  const std::string text = choicesText(all);
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i - 1] != ';') {
      EXPECT_THAT(messageOf<Unsupported>([&] { parseChoices(text.substr(0, i)); }),
                  HasSubstr("cannot be read"))
          << i;
    }
  }
  EXPECT_THAT(messageOf<Unsupported>([] { parseChoices("a 1 x 1 7:0:x 0 ;"); }),
              HasSubstr("cannot be read"));
  EXPECT_THAT(messageOf<Unsupported>([] { parseChoices("a 1 xg0 0 0 ;"); }),
              HasSubstr("cannot be read"));
}

const ir::OpView& loopView() {
  static const ir::Graph kGraph = ir::parse(R"(graph "g" {
    %0 = input() "x" : f32[16]
    %1 = loop(%0) {body=graph "b" {
      %0 = input() "in0" : f32[16]
      %1 = exp(%0) : f32[16]
      output "out0" = %1
    }, carried=1, count=3} : f32[16]
  })",
                                            ops::opSet());
  static const ir::Op& kOp = kGraph.op(kGraph.order()[1]);
  static const std::vector<TensorType> kTypes = kGraph.inputTypes(kOp);
  static const ir::OpView kView = ir::view(kOp, kTypes);
  return kView;
}

TEST(LoopKernel, IsRefusedWithChoicesThatDoNotFit) {
  const device::KernelTable table("cpu", tableEntries(), {});
  const device::Choice good = table.choose(loopView());
  EXPECT_EQ(good.implementation, "bodies");
  EXPECT_NE(makeKernel(loopView(), good), nullptr);
  device::Choice none = good;
  none.config.clear();
  EXPECT_THAT(messageOf<Unsupported>([&] { makeKernel(loopView(), none); }),
              HasSubstr("no choice of a kernel"));
  device::Choice more = good;
  more.scratchBytes += 64;
  EXPECT_THAT(messageOf<Unsupported>([&] { makeKernel(loopView(), more); }),
              HasSubstr("bytes of scratch"));
}

}  // namespace
}  // namespace sluice::devices::cpu
