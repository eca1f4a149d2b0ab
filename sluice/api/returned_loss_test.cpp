// Which tensor of forward's result a training model minimises, and what it refuses.
#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/sluice.h"

namespace sluice {
namespace {

using nn::Tensor;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Returns what `result` makes of the prediction and the target.
struct Returning : nn::Module {
  using Result = std::function<std::vector<Tensor>(const Tensor& y, const Tensor& target)>;
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{1, 1}}, ir::Initializer::constant(0.5));
  Result result;
  explicit Returning(Result made) : result(std::move(made)) {}
  std::vector<Tensor> forward(Tensor x, Tensor target) {
    return result(nn::sigmoid(nn::matmul(x, w)), target);
  }
};

/// The refusal of a training model with this result; empty: it trains.
std::string refusalOf(Returning::Result result) {
  Returning net(std::move(result));
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  try {
    model(HostTensor::of<float>(Shape{2, 1}, {1, 2}), HostTensor::of<float>(Shape{2, 1}, {1, 0}));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

Tensor errorRate(const Tensor& y, const Tensor& target) {
  return nn::mean(nn::abs(y - target));
}

Tensor labelsOf(const Tensor& target) {
  return nn::cast(nn::reshape(target, {2}), DType::I32);
}

Tensor scoresOf(const Tensor& y) {
  return nn::concat({y, 1.0 - y}, 1);
}

TEST(ReturnedLoss, IsNotLeftOutByTheLastTensor) {
  using Loss = std::function<Tensor(const Tensor&, const Tensor&)>;
  const std::map<std::string, Loss> losses = {
      {"mse_loss", [](const auto& y, const auto& t) { return nn::mseLoss(y, t); }},
      {"l1_loss", [](const auto& y, const auto& t) { return nn::l1Loss(y, t); }},
      {"bce_loss", [](const auto& y, const auto& t) { return nn::bceLoss(y, t); }},
      {"bce_with_logits_loss",
       [](const auto& y, const auto& t) { return nn::bceWithLogits(y, t); }},
      {"cross_entropy",
       [](const auto& y, const auto& t) { return nn::crossEntropy(scoresOf(y), labelsOf(t)); }},
      {"nll_loss",
       [](const auto& y, const auto& t) { return nn::nllLoss(scoresOf(y), labelsOf(t)); }}};
  for (const auto& [name, loss] : losses) {
    SCOPED_TRACE(name);
    EXPECT_THAT(refusalOf([&](const Tensor& y, const Tensor& t) {
                  return std::vector{loss(y, t), errorRate(y, t)};
                }),
                AllOf(HasSubstr("'output0'"),
                      HasSubstr("'output1'"),
                      HasSubstr(name),
                      HasSubstr("identityLoss")));
    // What is made of the loss counts, too, and a second loss does not speak for the first.
    EXPECT_THAT(refusalOf([&](const Tensor& y, const Tensor& t) {
                  return std::vector{2.0 * loss(y, t), nn::mseLoss(y, t)};
                }),
                HasSubstr("'output0'"));
    EXPECT_EQ(refusalOf([&](const Tensor& y, const Tensor& t) {
                return std::vector{y, errorRate(y, t), loss(y, t)};
              }),
              "");
    EXPECT_EQ(refusalOf([&](const Tensor& y, const Tensor& t) {
                return std::vector{nn::identityLoss(loss(y, t)), errorRate(y, t)};
              }),
              "");
  }
}

TEST(ReturnedLoss, MayBeReturnedBesideASumThatItFeeds) {
  EXPECT_EQ(refusalOf([](const Tensor& y, const Tensor& t) {
              const Tensor a = nn::mseLoss(y, t);
              const Tensor b = nn::l1Loss(y, t);
              return std::vector{a, 2.0 * b, a + b};
            }),
            "");
  // One that is only looked at beside a marked one.
  EXPECT_EQ(refusalOf([](const Tensor& y, const Tensor& t) {
              return std::vector{nn::identityLoss(nn::mseLoss(y, t)), nn::l1Loss(y, t)};
            }),
            "");
}

TEST(ReturnedLoss, IsNamedInTheLogWhereAnotherOutputMightBeMeant) {
  const auto logOf = [](const Returning::Result& result) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(refusalOf(result), "");
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(logOf([](const Tensor& y, const Tensor& t) {
                return std::vector{errorRate(y, t), nn::mseLoss(y, t)};
              }),
              AllOf(HasSubstr("info"), HasSubstr("minimises 'output1'"), HasSubstr("mse_loss")));
  EXPECT_THAT(logOf([](const Tensor& y, const Tensor& t) {
                return std::vector{y, nn::mseLoss(y, t)};
              }),
              ::testing::Not(HasSubstr("minimises")));
}

struct LonelyWeight : nn::Module {
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
};

TEST(ReturnedLoss, OfALoopIsWhatMinimizeSays) {
  LonelyWeight net;
  data::OutfeedQueue outfeed(data::OutfeedMode::All, 2);
  auto train = compile(net, Options(), [&](const std::vector<Tensor>&) {
    return repeat(1, [&](const std::vector<Tensor>&) {
      const Tensor zero = nn::constant(HostTensor::full({DType::F32, Shape{1}}, 0));
      enqueue(outfeed, nn::l1Loss(net.w.use(), zero));
      minimize(optim::SGD(0.25), nn::mseLoss(net.w.use(), zero));
      return std::vector<Tensor>{};
    });
  });
  train();
  EXPECT_EQ(net.w.value().at(0), 0.5);  // the gradient is 2 w
}

}  // namespace
}  // namespace sluice
