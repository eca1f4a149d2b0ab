// Models with concurrent stages through the whole API; that they leave the bits of one device is in
// same_bits_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/option_value.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::messageOf;

/// f2(f0, [f1a, f1b]): 10 * (2x + 1) + (2x + 1)^2, and both parts.
struct Forked : nn::Module {
  std::vector<nn::Tensor> forward(nn::Tensor x) {
    {
      const nn::Block b("f0");
      x = x * 2.0 + 1.0;
    }
    nn::Tensor u = x;
    {
      const nn::Block b("f1a");
      u = x * 10.0;
    }
    nn::Tensor v = x;
    {
      const nn::Block b(crossed ? "f1c" : "f1b");
      v = crossed ? u * x : x * x;
    }
    const nn::Block b("f2");
    return {u + v, nn::concat({u, v}, 0)};
  }
  bool crossed = false;
};

Options forkedOn(Stage left, Stage right) {
  Options options;
  options.deviceIterations(5).setExecutionStrategy(
      PipelinedExecution{Stage("f0").device(0),
                         ConcurrentStages(std::move(left), std::move(right)),
                         Stage("f2").device(2)});
  return options;
}

TEST(ConcurrentStages, GiveTheNextStageTheResultsOfAll) {
  Forked net;
  auto model = inferenceModel(net, forkedOn(Stage("f1a").device(1), Stage("f1b").device(2)));
  HostTensor x(DType::F32, Shape{5, 1});
  for (std::int64_t i = 0; i < 5; ++i) {
    x.set(i, static_cast<double>(i));
  }
  const std::vector<HostTensor> out = model.run(std::vector<HostTensor>{x});
  for (std::int64_t i = 0; i < 5; ++i) {
    const auto y = static_cast<double>(2 * i + 1);
    EXPECT_EQ(out[0].at(i), 10 * y + y * y);
    EXPECT_EQ(out[1].at(2 * i), 10 * y);
    EXPECT_EQ(out[1].at(2 * i + 1), y * y);
  }
  // One place in the pipeline: no warning that five micro-batches do not fill it, and a note each.
  const std::string text = model.explain();
  EXPECT_THAT(text,
              AllOf(HasSubstr("f1a, concurrent in slot 1\n"),
                    HasSubstr("f1b, concurrent in slot 1\n"),
                    HasSubstr("f2\n")));
}

TEST(ConcurrentStages, AreRefusedOnOneDeviceAndWhenTheyDepend) {
  Forked net;
  const HostTensor x(DType::F32, Shape{5, 1});
  auto same = inferenceModel(net, forkedOn(Stage("f1a").device(2), Stage("f1b").device(2)));
  EXPECT_THAT(messageOf([&] { same.run(std::vector<HostTensor>{x}); }),
              AllOf(HasSubstr("f1a and f1b"), HasSubstr("both on device 2")));
  net.crossed = true;
  auto crossed = inferenceModel(net, forkedOn(Stage("f1a").device(1), Stage("f1c").device(2)));
  EXPECT_THAT(messageOf([&] { crossed.run(std::vector<HostTensor>{x}); }),
              HasSubstr("may not depend on each other"));
}

TEST(ConcurrentStages, AreReadFromTheTextThatPrintsThem) {
  const Strategy strategy = PipelinedExecution(
      "a", ConcurrentStages(Stage("b", "c").device(1), Stage("d").device(2)), "e");
  EXPECT_EQ(detail::toStrategy(detail::parseValue(strategy.str())), strategy);
  EXPECT_THAT(
      messageOf([] {
        detail::toStrategy(detail::parseValue("PipelinedExecution(ConcurrentStages(1, 2))"));
      }),
      HasSubstr("ConcurrentStages takes"));
}

}  // namespace
}  // namespace sluice
