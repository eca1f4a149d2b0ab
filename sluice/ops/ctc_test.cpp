// ctc_loss against the sum over every path, written out; its gradient is checked by the conformance
// suite.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/norm_ops.h"
#include "tests/support/message_of.h"

namespace sluice::ops {
namespace {

using sluice::testing::messageOf;
using ::testing::HasSubstr;

constexpr std::int64_t kSteps = 5;
constexpr std::int64_t kClasses = 3;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

HostTensor i64(Shape shape, const std::vector<std::int64_t>& values) {
  return HostTensor::of<std::int64_t>(std::move(shape), std::span<const std::int64_t>(values));
}

/// Log-probabilities of some softmax, [steps, batch, classes].
HostTensor logProbabilities(std::int64_t batch) {
  HostTensor scores(DType::F64, Shape{kSteps, batch, kClasses});
  for (std::int64_t i = 0; i < scores.shape().elements(); ++i) {
    scores.set(i, std::sin(static_cast<double>(i * i + 1)));
  }
  return evaluate(kLogSoftmax, {{"axis", 2}}, {scores})[0];
}

/// What a path spells: repeats count once, then blanks go.
std::vector<std::int64_t> spelled(std::int64_t path, std::int64_t steps, std::int64_t blank) {
  std::vector<std::int64_t> labels;
  std::int64_t last = -1;
  for (std::int64_t t = 0; t < steps; ++t, path /= kClasses) {
    const std::int64_t label = path % kClasses;
    if (label != last && label != blank) {
      labels.push_back(label);
    }
    last = label;
  }
  return labels;
}

/// Minus the log of the probability of all paths that spell the target.
double lossByPaths(const HostTensor& logs,
                   std::int64_t item,
                   std::int64_t steps,
                   const std::vector<std::int64_t>& target,
                   std::int64_t blank) {
  const std::int64_t batch = logs.shape()[1];
  double sum = 0;
  const auto paths = static_cast<std::int64_t>(std::pow(kClasses, steps));
  for (std::int64_t path = 0; path < paths; ++path) {
    if (spelled(path, steps, blank) != target) {
      continue;
    }
    double log = 0;
    std::int64_t rest = path;
    for (std::int64_t t = 0; t < steps; ++t, rest /= kClasses) {
      log += logs.at((t * batch + item) * kClasses + rest % kClasses);
    }
    sum += std::exp(log);
  }
  return -std::log(sum);
}

TEST(CtcLoss, SumsAllPathsThatSpellTheTarget) {
  const std::vector<std::vector<std::int64_t>> targets = {{1, 2}, {1, 1}, {}, {2, 1, 2}};
  const std::vector<std::int64_t> steps = {5, 4, 3, 5};
  const HostTensor logs = logProbabilities(4);
  const HostTensor padded = i64(Shape{4, 3}, {1, 2, 0, 1, 1, 0, 0, 0, 0, 2, 1, 2});
  const HostTensor counts = i64(Shape{4}, {2, 2, 0, 3});
  const HostTensor losses = evaluate(kCtcLoss, {}, {logs, padded, i64(Shape{4}, steps), counts})[0];
  for (std::size_t n = 0; n < targets.size(); ++n) {
    const auto item = static_cast<std::int64_t>(n);
    EXPECT_NEAR(losses.at(item), lossByPaths(logs, item, steps[n], targets[n], 0), 1e-9) << n;
  }
}

TEST(CtcLoss, TakesAnyClassAsTheBlank) {
  const HostTensor logs = logProbabilities(1);
  const HostTensor loss =
      evaluate(kCtcLoss,
               {{"blank", 2}},
               {logs, i64(Shape{1, 2}, {0, 1}), i64(Shape{1}, {kSteps}), i64(Shape{1}, {2})})[0];
  EXPECT_NEAR(loss.at(0), lossByPaths(logs, 0, kSteps, {0, 1}, 2), 1e-9);
}

TEST(CtcLoss, ImpossibleTargetsCostInfinityOrNothing) {
  // Two equal labels need a blank between them: three steps.
  const std::vector<HostTensor> operands = {
      logProbabilities(1), i64(Shape{1, 2}, {1, 1}), i64(Shape{1}, {2}), i64(Shape{1}, {2})};
  EXPECT_EQ(evaluate(kCtcLoss, {}, operands)[0].at(0), kInfinity);
  EXPECT_EQ(evaluate(kCtcLoss, {{"zeroInfinity", true}}, operands)[0].at(0), 0.0);
  std::vector<HostTensor> withGradient = operands;
  withGradient.push_back(HostTensor::full({DType::F64, Shape{1}}, 1.0));
  for (const double slope : evaluate(kCtcLossGrad, {}, withGradient)[0].toDoubles()) {
    EXPECT_EQ(slope, 0.0);
  }
}

double reduced(Reduction reduction) {
  ir::Graph graph("g");
  GraphBuilder b(graph);
  const Value loss = ctcLoss(b,
                             b.constant(logProbabilities(2)),
                             {.targets = b.constant(i64(Shape{2, 2}, {1, 2, 2, 0})),
                              .inputLengths = b.constant(i64(Shape{2}, {5, 4})),
                              .targetLengths = b.constant(i64(Shape{2}, {2, 1}))},
                             {.reduction = reduction});
  graph.addOutput("loss", loss);
  TensorMap variables;
  return evaluate(graph, {}, variables).at("loss").at(0);
}

TEST(CtcLoss, TheMeanIsOfLossesPerLabel) {
  const HostTensor logs = logProbabilities(2);
  const double first = lossByPaths(logs, 0, 5, {1, 2}, 0);
  const double second = lossByPaths(logs, 1, 4, {2}, 0);
  EXPECT_NEAR(reduced(Reduction::None), first, 1e-9);
  EXPECT_NEAR(reduced(Reduction::Sum), first + second, 1e-9);
  EXPECT_NEAR(reduced(Reduction::Mean), (first / 2 + second) / 2, 1e-9);
}

struct Operands {
  Shape logs = {kSteps, 1, kClasses};
  HostTensor targets = i64(Shape{1, 2}, {1, 2});
  std::int64_t steps = kSteps;
  std::int64_t count = 2;
};

std::string refusal(const Operands& operands, const ir::Attrs& attrs = {}) {
  return messageOf([&] {
    evaluate(kCtcLoss,
             attrs,
             {HostTensor(DType::F32, operands.logs),
              operands.targets,
              i64(Shape{1}, {operands.steps}),
              i64(Shape{1}, {operands.count})});
  });
}

TEST(CtcLoss, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal({.logs = {5, 3}}), HasSubstr("[steps, batch, classes]"));
  EXPECT_THAT(refusal({.targets = HostTensor(DType::F32, Shape{1, 2})}), HasSubstr("targets"));
  EXPECT_THAT(refusal({.logs = {5, 2, 3}}), HasSubstr("targets must be"));
  EXPECT_THAT(refusal({}, {{"blank", 3}}), HasSubstr("blank 3"));
  EXPECT_THAT(refusal({.steps = 6}), HasSubstr("input length 6"));
  EXPECT_THAT(refusal({.count = -1}), HasSubstr("target length -1"));
  EXPECT_THAT(refusal({.targets = i64(Shape{1, 2}, {1, 7})}), HasSubstr("label 7"));
}

}  // namespace
}  // namespace sluice::ops
