#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/batch.h"
#include "sluice/api/options.h"
#include "sluice/base/error.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

BatchLayout inference(const Options& options) {
  return BatchLayout::of(options, RunKind::Inference);
}

BatchLayout training(const Options& options) {
  return BatchLayout::of(options, RunKind::Training);
}

TEST(BatchLayout, CountsTheRowsOfTheMnistTutorial) {
  Options options;
  options.deviceIterations(10).training.gradientAccumulation(10);
  BatchLayout layout = training(options);
  layout.microBatch = 40;
  EXPECT_EQ(layout.rowsPerCall(), 4000);
  EXPECT_EQ(60000 / layout.rowsPerCall(), 15);
  EXPECT_EQ(layout.rowsPerUpdate(), 400);
  BatchLayout test = inference(Options().deviceIterations(100));
  test.microBatch = 8;
  EXPECT_EQ(test.rowsPerCall(), 800);
  EXPECT_EQ(10000 / test.rowsPerCall(), 12);
}

TEST(BatchLayout, IndexIsRowMajorOverIterationAccumulationReplicaAndRow) {
  const BatchLayout layout{
      .microBatch = 2, .deviceIterations = 3, .gradientAccumulation = 4, .replicationFactor = 5};
  std::int64_t expected = 0;
  for (std::int64_t iteration = 0; iteration < 3; ++iteration) {
    for (std::int64_t accumulation = 0; accumulation < 4; ++accumulation) {
      for (std::int64_t replica = 0; replica < 5; ++replica) {
        for (std::int64_t row = 0; row < 2; ++row) {
          EXPECT_EQ(layout.index(iteration, accumulation, replica, row), expected++);
        }
      }
    }
  }
  EXPECT_EQ(layout.rowsPerCall(), expected);
}

TEST(BatchLayout, IndexRefusesWhatIsOutOfRange) {
  const BatchLayout layout{.microBatch = 2, .deviceIterations = 3, .gradientAccumulation = 4};
  EXPECT_THAT(messageOf([&] { layout.index(3, 0, 0, 0); }), HasSubstr("iteration 3"));
  EXPECT_THAT(messageOf([&] { layout.index(0, 4, 0, 0); }), HasSubstr("accumulation 4"));
  EXPECT_THAT(messageOf([&] { layout.index(0, 0, 1, 0); }), HasSubstr("replica 1"));
  EXPECT_THAT(messageOf([&] { layout.index(0, 0, 0, -1); }), HasSubstr("row -1"));
}

TEST(BatchLayout, GroupsOfReplicasShareTheirRows) {
  Options options;
  options.replicationFactor(4).inputReplicaGrouping(2, CommGroupType::Consecutive);
  const auto rows = [](const BatchLayout& layout) {
    std::vector<std::int64_t> all;
    for (std::int64_t replica = 0; replica < 4; ++replica) {
      all.push_back(layout.index(0, 0, replica, 0));
    }
    return all;
  };
  EXPECT_THAT(rows(inference(options)), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(inference(options).inputFactor(), 2);
  options.inputReplicaGrouping(2, CommGroupType::Orthogonal);
  EXPECT_THAT(rows(inference(options)), ElementsAre(0, 1, 0, 1));
}

TEST(BatchLayout, GroupsMustDivideTheReplicas) {
  Options options;
  options.replicationFactor(4).inputReplicaGrouping(3, CommGroupType::Consecutive);
  EXPECT_THAT(messageOf([&] { inference(options); }),
              AllOf(HasSubstr("groups of 3"), HasSubstr("replicationFactor 4")));
  options.inputReplicaGrouping(8, CommGroupType::Consecutive);
  EXPECT_THAT(messageOf([&] { inference(options); }), HasSubstr("groups of 8"));
}

TEST(BatchLayout, ThePeriodOfEveryNMustDivideTheMicroBatches) {
  const auto with = [](std::int64_t period) {
    return messageOf(
        [&] { inference(Options().deviceIterations(8).outputMode(OutputMode::EveryN, period)); });
  };
  EXPECT_EQ(with(4), "nothing thrown");
  EXPECT_THAT(with(3), HasSubstr("period 3, which must divide the 8"));
  EXPECT_THAT(with(9), HasSubstr("period 9"));
}

TEST(BatchLayout, InferenceAccumulatesNothing) {
  Options options;
  options.training.gradientAccumulation(2);
  EXPECT_THAT(messageOf([&] { inference(options); }),
              AllOf(HasSubstr("gradientAccumulation must be 1"), HasSubstr("deviceIterations")));
  options.setExecutionStrategy(ShardedExecution{});
  EXPECT_THAT(
      messageOf([&] { inference(options); }),
      AllOf(HasSubstr("gradientAccumulation must be 1"), Not(HasSubstr("deviceIterations"))));
}

TEST(BatchLayout, DefaultModeIsAllForInferenceAndFinalForTraining) {
  EXPECT_EQ(inference(Options()).outputMode, OutputMode::All);
  EXPECT_EQ(training(Options()).outputMode, OutputMode::Final);
  EXPECT_EQ(training(Options().outputMode(OutputMode::Sum)).outputMode, OutputMode::Sum);
}

TEST(BatchLayout, OutputsHaveTheLeadingDimensionOfTheirMode) {
  BatchLayout layout{.microBatch = 3,
                     .deviceIterations = 4,
                     .gradientAccumulation = 2,
                     .replicationFactor = 2,
                     .outputPeriod = 4};
  const auto leading = [&](OutputMode mode) {
    layout.outputMode = mode;
    return layout.outputShape(Shape{3, 7});
  };
  EXPECT_EQ(leading(OutputMode::All), (Shape{3 * 4 * 2 * 2, 7}));
  EXPECT_EQ(leading(OutputMode::EveryN), (Shape{3 * 4 * 2 * 2 / 4, 7}));
  EXPECT_EQ(leading(OutputMode::Final), (Shape{3 * 2, 7}));
  EXPECT_EQ(leading(OutputMode::Sum), (Shape{3 * 2, 7}));
}

TEST(BatchLayout, DivisorsAreOneThePeriodOrAllMicroBatches) {
  BatchLayout layout{.deviceIterations = 6, .gradientAccumulation = 2, .outputPeriod = 3};
  const auto divisor = [&](OutputMode mode) {
    layout.outputMode = mode;
    return layout.outputDivisor();
  };
  EXPECT_EQ(divisor(OutputMode::All), 1);
  EXPECT_EQ(divisor(OutputMode::EveryN), 3);
  EXPECT_EQ(divisor(OutputMode::Final), 12);
  EXPECT_EQ(divisor(OutputMode::Sum), 12);
}

TEST(BatchLayout, ScalarsGetADimensionOnlyWhenThereAreSeveral) {
  BatchLayout layout{.deviceIterations = 4, .outputMode = OutputMode::All};
  EXPECT_EQ(layout.outputShape(Shape{}), Shape{4});
  layout.outputMode = OutputMode::Sum;
  EXPECT_EQ(layout.outputShape(Shape{}), Shape{});
  layout.replicationFactor = 2;
  EXPECT_EQ(layout.outputShape(Shape{}), Shape{2});
}

TEST(BatchLayout, FindsTheMicroBatchOfAnInputOrNamesTheFactors) {
  Options options;
  options.deviceIterations(2).replicationFactor(2).training.gradientAccumulation(3);
  const BatchLayout layout = training(options);
  EXPECT_EQ(layout.microBatchOf("input 0", Shape{24, 5}), 2);
  EXPECT_THAT(messageOf([&] {
                layout.microBatchOf("input 0", Shape{10, 5});
              }),
              AllOf(HasSubstr("input 0 has shape [10, 5]"),
                    HasSubstr("multiple of 12 (deviceIterations 2 x gradientAccumulation 3 x "
                              "replicationFactor 2)")));
  EXPECT_EQ(layout.microBatchOf("input 1", Shape{}), 1);  // the same for all micro-batches
  EXPECT_EQ(inference(Options()).microBatchOf("input 0", Shape{}), 1);
}

TEST(BatchLayout, ElementCountsAreExact) {
  const BatchLayout layout{.deviceIterations = 4,
                           .gradientAccumulation = 5,
                           .replicationFactor = 2,
                           .outputMode = OutputMode::EveryN,
                           .outputPeriod = 10};
  EXPECT_NO_THROW(layout.requireInputElements("x", 3, 3 * 4 * 5 * 2));
  EXPECT_THAT(messageOf([&] { layout.requireInputElements("x", 3, 119); }),
              AllOf(HasSubstr("'x': expected 120 elements (3 per micro-batch"),
                    HasSubstr("deviceIterations 4"),
                    HasSubstr("gradientAccumulation 5"),
                    HasSubstr("replicationFactor 2"),
                    HasSubstr("got 119")));
  EXPECT_NO_THROW(layout.requireOutputElements("y", 3, 12));
  EXPECT_THAT(messageOf([&] { layout.requireOutputElements("y", 3, 120); }),
              AllOf(HasSubstr("expected 12 elements"), HasSubstr("/ 10 for outputMode EveryN")));
}

TEST(BatchLayout, RefusesCountsWhoseProductIsNoNumber) {
  const std::int64_t most = (std::int64_t{1} << 31) - 1;
  Options options;
  options.deviceIterations(most).replicationFactor(most).training.gradientAccumulation(most);
  EXPECT_THAT(messageOf([&] { training(options); }), HasSubstr("too many micro-batches"));
}

TEST(BatchLayout, ExplainsItselfWithNumbers) {
  Options options;
  options.deviceIterations(10).training.gradientAccumulation(10);
  BatchLayout layout = training(options);
  layout.microBatch = 40;
  EXPECT_EQ(layout.explain(),
            "A call takes 4000 rows: micro-batch 40 x deviceIterations 10 x gradientAccumulation "
            "10\n"
            "  micro-batch                 40  rows that an op sees\n"
            "  gradientAccumulation        10  micro-batches per weight update of a replica\n"
            "  deviceIterations            10  weight updates, or micro-batches of inference\n"
            "  replicationFactor            1  copies of the model\n"
            "  a weight update sees       400  rows\n"
            "Row of an input: ((iteration x 10 + accumulation) x 1 + replica) x 40 + row\n"
            "outputMode Final: the last micro-batch of each replica comes back, 40 rows of an "
            "output with 40 per micro-batch\n");
  options = Options();
  options.replicationFactor(4).inputReplicaGrouping(2, CommGroupType::Orthogonal);
  EXPECT_THAT(inference(options).explain(),
              AllOf(HasSubstr("2  replicas with the same rows (Orthogonal)"),
                    HasSubstr("x 2 + group of the replica) x 1 + row"),
                    HasSubstr("every micro-batch comes back, 4 rows")));
}

}  // namespace
}  // namespace sluice
