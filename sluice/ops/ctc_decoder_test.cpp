// ctc_beam_search_decoder against the sum over every path, written out.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/ops.h"
#include "sluice/ops/vendor.h"
#include "tests/support/message_of.h"

namespace sluice::ops {
namespace {

using sluice::testing::messageOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Labels = std::vector<std::int64_t>;

HostTensor i64(Shape shape, const Labels& values) {
  return HostTensor::of<std::int64_t>(std::move(shape), std::span<const std::int64_t>(values));
}

/// Log-probabilities of some softmax, [steps, batch, classes].
HostTensor logProbabilities(const Shape& shape) {
  HostTensor scores(DType::F64, shape);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    scores.set(i, 2 * std::sin(static_cast<double>(i * i + 3)));
  }
  return evaluate(kLogSoftmax, {{"axis", 2}}, {scores})[0];
}

/// What a path spells: repeats count once, then blanks go.
Labels spelled(const Labels& path, std::int64_t blank) {
  Labels labels;
  for (std::size_t t = 0; t < path.size(); ++t) {
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) {
      labels.push_back(path[t]);
    }
  }
  return labels;
}

/// The probability of every label sequence of an item, by all paths.
std::map<Labels, double> byPaths(const HostTensor& logs,
                                 std::int64_t item,
                                 std::int64_t steps,
                                 std::int64_t blank) {
  const std::int64_t batch = logs.shape()[1];
  const std::int64_t classes = logs.shape()[2];
  std::map<Labels, double> sums;
  const auto paths = static_cast<std::int64_t>(std::pow(classes, steps));
  for (std::int64_t number = 0; number < paths; ++number) {
    Labels path;
    double log = 0;
    std::int64_t rest = number;
    for (std::int64_t t = 0; t < steps; ++t, rest /= classes) {
      path.push_back(rest % classes);
      log += logs.at((t * batch + item) * classes + rest % classes);
    }
    sums[spelled(path, blank)] += std::exp(log);
  }
  return sums;
}

struct Decoded {
  std::vector<double> probabilities;
  std::vector<Labels> labels;
};

Decoded decoded(const std::vector<HostTensor>& results, std::int64_t item) {
  const std::int64_t paths = results[0].shape()[1];
  const std::int64_t steps = results[2].shape()[2];
  Decoded all;
  for (std::int64_t p = 0; p < paths; ++p) {
    all.probabilities.push_back(results[0].at(item * paths + p));
    Labels labels;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(results[1].at(item * paths + p)); ++i) {
      labels.push_back(static_cast<std::int64_t>(results[2].at((item * paths + p) * steps + i)));
    }
    all.labels.push_back(labels);
  }
  return all;
}

TEST(CtcBeamSearchDecoder, AWideBeamFindsTheMostLikelySequencesExactly) {
  const HostTensor logs = logProbabilities({5, 3, 3});
  const Labels steps = {5, 3, 4};
  for (const std::int64_t blank : {0, 2}) {
    const auto results = evaluate(
        kCtcBeamSearchDecoder, {{"blank", blank}, {"topPaths", 4}}, {logs, i64({3}, steps)});
    for (std::int64_t item = 0; item < 3; ++item) {
      const auto sums = byPaths(logs, item, steps[static_cast<std::size_t>(item)], blank);
      std::vector<std::pair<double, Labels>> best;
      for (const auto& [labels, sum] : sums) {
        best.emplace_back(sum, labels);
      }
      std::ranges::sort(best, std::greater<>());
      const Decoded found = decoded(results, item);
      for (std::size_t p = 0; p < 4; ++p) {
        EXPECT_NEAR(found.probabilities[p], best[p].first, 1e-12) << item << " " << p;
        EXPECT_EQ(found.labels[p], best[p].second) << item << " " << p;
      }
    }
  }
}

TEST(CtcBeamSearchDecoder, ANarrowBeamNeverClaimsMoreThanAllPaths) {
  const HostTensor logs = logProbabilities({6, 2, 4});
  const auto results = evaluate(
      kCtcBeamSearchDecoder, {{"beamWidth", 2}, {"topPaths", 2}}, {logs, i64({2}, {6, 6})});
  for (std::int64_t item = 0; item < 2; ++item) {
    const auto sums = byPaths(logs, item, 6, 0);
    const Decoded found = decoded(results, item);
    EXPECT_GE(found.probabilities[0], found.probabilities[1]);
    for (std::size_t p = 0; p < 2; ++p) {
      EXPECT_LE(found.probabilities[p], sums.at(found.labels[p]) + 1e-12);
      EXPECT_GT(found.probabilities[p], 0);
    }
  }
}

TEST(CtcBeamSearchDecoder, ALabelTwiceNeedsABlankBetween) {
  // Two steps, classes blank, a: aa, a-, -a spell "a"; only "--" spells nothing.
  const double a = std::log(0.6);
  const double none = std::log(0.4);
  const HostTensor logs = HostTensor::of<double>({2, 1, 2}, {none, a, none, a});
  const auto results = evaluate(kCtcBeamSearchDecoder, {{"topPaths", 3}}, {logs, i64({1}, {2})});
  const Decoded found = decoded(results, 0);
  EXPECT_THAT(found.labels, ElementsAre(Labels{1}, Labels{}, Labels{}));
  EXPECT_NEAR(found.probabilities[0], 0.84, 1e-12);
  EXPECT_NEAR(found.probabilities[1], 0.16, 1e-12);
  EXPECT_EQ(found.probabilities[2], 0.0);  // there is no third sequence
  EXPECT_THAT(results[2].toDoubles(), ElementsAre(1, 0, 0, 0, 0, 0));
}

TEST(CtcBeamSearchDecoder, HasTheShapesOfTheGuide) {
  const auto results =
      evaluate(kCtcBeamSearchDecoder, {}, {logProbabilities({9, 3, 5}), i64({3}, {9, 9, 9})});
  EXPECT_EQ(results[0].shape(), (Shape{3, 1}));
  EXPECT_EQ(results[1].shape(), (Shape{3, 1}));
  EXPECT_EQ(results[2].shape(), (Shape{3, 1, 9}));
}

TEST(CtcBeamSearchDecoder, RefusesWhatDoesNotFit) {
  const auto refusal = [](const Shape& shape, const Labels& lengths, const ir::Attrs& attrs) {
    return messageOf([&] {
      evaluate(kCtcBeamSearchDecoder,
               attrs,
               {HostTensor(DType::F32, shape), i64({std::ssize(lengths)}, lengths)});
    });
  };
  EXPECT_THAT(refusal({2, 3}, {1}, {}), HasSubstr("[steps, batch, classes]"));
  EXPECT_THAT(refusal({2, 3, 4}, {1}, {}), HasSubstr("lengths [batch]"));
  EXPECT_THAT(refusal({2, 1, 4}, {1}, {{"blank", 4}}), HasSubstr("blank 4"));
  EXPECT_THAT(refusal({2, 1, 4}, {1}, {{"topPaths", 0}}), HasSubstr("topPaths"));
  EXPECT_THAT(refusal({2, 1, 4}, {1}, {{"topPaths", 3}, {"beamWidth", 2}}), HasSubstr("beamWidth"));
  EXPECT_THAT(refusal({2, 1, 4}, {3}, {}), HasSubstr("length 3"));
}

}  // namespace
}  // namespace sluice::ops
