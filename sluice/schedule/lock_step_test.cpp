#include "sluice/schedule/lock_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"

namespace sluice::schedule {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Rows = std::vector<std::string>;

PipelineProblem stageStack(std::int32_t stages, std::int32_t microBatches, bool training = true) {
  return {.deviceOfStage = roundRobinPlacement(stages, 1),
          .microBatches = microBatches,
          .training = training};
}

/// One line per device, cells separated by " | ".
Rows rowsOf(PipelineKind kind, const PipelineProblem& problem) {
  const CycleTable table = cycleTable(kind, problem);
  Rows rows;
  for (const auto& device : table.devices) {
    EXPECT_EQ(device.size(), static_cast<std::size_t>(table.cycles));
    std::string row;
    for (const auto& cells : device) {
      row += (row.empty() ? "" : " | ") + cellText(cells);
    }
    rows.push_back(row);
  }
  return rows;
}

TEST(LockStep, PopartRunsThreeStagesInNineCycles) {
  EXPECT_EQ(rowsOf(PipelineKind::Popart, stageStack(3, 5)),
            Rows({"S0(0) | S0(1) | S0(2) | S0(3) | S0(4) S4(0) | S4(1) | S4(2) | S4(3) | S4(4)",
                  "- | S1(0) | S1(1) | S1(2) S3(0) | S1(3) S3(1) | S1(4) S3(2) | S3(3) | S3(4) | -",
                  "- | - | S2(0) | S2(1) | S2(2) | S2(3) | S2(4) | - | -"}));
  const CyclePhases phases = cyclePhases(PipelineKind::Popart, stageStack(3, 5));
  EXPECT_EQ(phases.fill, 4);
  EXPECT_EQ(phases.main, 1);
  EXPECT_EQ(phases.flush, 4);
  EXPECT_EQ(phases.allDevicesBusy, 5);
  EXPECT_DOUBLE_EQ(phases.rampShare, 4.0 / 9.0);
}

TEST(LockStep, PopartRunsTwoStagesInSevenCycles) {
  EXPECT_EQ(rowsOf(PipelineKind::Popart, stageStack(2, 5)),
            Rows({"S0(0) | S0(1) | S0(2) S2(0) | S0(3) S2(1) | S0(4) S2(2) | S2(3) | S2(4)",
                  "- | S1(0) | S1(1) | S1(2) | S1(3) | S1(4) | -"}));
}

TEST(LockStep, PopartInferenceRunsOneStagePerDevice) {
  EXPECT_EQ(rowsOf(PipelineKind::Popart, stageStack(4, 4, false)),
            Rows({"S0(0) | S0(1) | S0(2) | S0(3) | - | - | -",
                  "- | S1(0) | S1(1) | S1(2) | S1(3) | - | -",
                  "- | - | S2(0) | S2(1) | S2(2) | S2(3) | -",
                  "- | - | - | S3(0) | S3(1) | S3(2) | S3(3)"}));
}

TEST(LockStep, PopartSharesOfRampsAndFullCyclesFollowTheFormulas) {
  for (std::int32_t stages = 1; stages <= 5; ++stages) {
    const std::int32_t merged = 2 * stages - 1;
    for (std::int32_t count = merged; count < 20; ++count) {
      const CyclePhases phases = cyclePhases(PipelineKind::Popart, stageStack(stages, count));
      EXPECT_EQ(phases.fill, merged - 1);
      EXPECT_EQ(phases.main, count - merged + 1);
      EXPECT_EQ(phases.flush, merged - 1);
      EXPECT_EQ(phases.allDevicesBusy, count);
      EXPECT_DOUBLE_EQ(phases.rampShare, double(merged - 1) / (count + merged - 1));
    }
  }
}

TEST(LockStep, TwoStagesOfOneDeviceRunLowerFirst) {
  const PipelineProblem problem{.deviceOfStage = {0, 1, 0}, .microBatches = 3, .training = false};
  EXPECT_EQ(rowsOf(PipelineKind::Popart, problem),
            Rows({"S0(0) | S0(1) | S0(2) S2(0) | S2(1) | S2(2)", "- | S1(0) | S1(1) | S1(2) | -"}));
}

TEST(LockStep, GroupedRunsTwoStagesInSevenTimesteps) {
  EXPECT_EQ(rowsOf(PipelineKind::Grouped, stageStack(2, 4)),
            Rows({"F0(0) | F0(1) | F0(2) | F0(3) B0(0) | B0(1) | B0(2) | B0(3)",
                  "- | F1(0) | F1(1) B1(0) | F1(2) B1(1) | F1(3) B1(2) | B1(3) | -"}));
}

TEST(LockStep, InterleavedRunsTwoStagesInTenTimesteps) {
  EXPECT_EQ(rowsOf(PipelineKind::Interleaved, stageStack(2, 4)),
            Rows({"F0(0) | - | F0(1) | B0(0) | F0(2) | B0(1) | F0(3) | B0(2) | - | B0(3)",
                  "- | F1(0) | B1(0) | F1(1) | B1(1) | F1(2) | B1(2) | F1(3) | B1(3) | -"}));
}

TEST(LockStep, SequentialRunsOneMicroBatchAtATime) {
  EXPECT_EQ(rowsOf(PipelineKind::Sequential, stageStack(2, 2)),
            Rows({"F0(0) | - | - | B0(0) | F0(1) | - | - | B0(1)",
                  "- | F1(0) | B1(0) | - | - | F1(1) | B1(1) | -"}));
}

TEST(LockStep, InterleavedRunsThreeStagesInSixteenTimesteps) {
  EXPECT_EQ(rowsOf(PipelineKind::Interleaved, stageStack(3, 6)),
            Rows({"F0(0) | - | F0(1) | - | F0(2) | B0(0) | F0(3) | B0(1) | F0(4) | B0(2) | F0(5) | "
                  "B0(3) | - | B0(4) | - | B0(5)",
                  "- | F1(0) | - | F1(1) | B1(0) | F1(2) | B1(1) | F1(3) | B1(2) | F1(4) | B1(3) | "
                  "F1(5) | B1(4) | - | B1(5) | -",
                  "- | - | F2(0) | B2(0) | F2(1) | B2(1) | F2(2) | B2(2) | F2(3) | B2(3) | F2(4) | "
                  "B2(4) | F2(5) | B2(5) | - | -"}));
}

TEST(LockStep, GroupedRunsThreeStagesInElevenTimesteps) {
  EXPECT_EQ(rowsOf(PipelineKind::Grouped, stageStack(3, 6)),
            Rows({"F0(0) | F0(1) | F0(2) | F0(3) | F0(4) | F0(5) B0(0) | B0(1) | B0(2) | B0(3) | "
                  "B0(4) | B0(5)",
                  "- | F1(0) | F1(1) | F1(2) | F1(3) B1(0) | F1(4) B1(1) | F1(5) B1(2) | B1(3) | "
                  "B1(4) | B1(5) | -",
                  "- | - | F2(0) | F2(1) B2(0) | F2(2) B2(1) | F2(3) B2(2) | F2(4) B2(3) | "
                  "F2(5) B2(4) | B2(5) | - | -"}));
}

/// When micro-batch m of a schedule starts, and how many timesteps all of them take.
struct TimestepRule {
  PipelineKind kind;
  std::int32_t (*start)(std::int32_t stages, std::int32_t m);
  std::int32_t (*timesteps)(std::int32_t stages, std::int32_t count);
  std::size_t most;  ///< stages on a device in a timestep
};

const std::vector<TimestepRule> kTimestepRules = {
    {PipelineKind::Grouped,
     [](std::int32_t, std::int32_t m) { return m; },
     [](std::int32_t stages, std::int32_t count) { return count + 2 * stages - 1; },
     2},
    {PipelineKind::Interleaved,
     [](std::int32_t, std::int32_t m) { return 2 * m; },
     [](std::int32_t stages, std::int32_t count) { return 2 * count + 2 * stages - 2; },
     1},
    {PipelineKind::Sequential,
     [](std::int32_t stages, std::int32_t m) { return 2 * stages * m; },
     [](std::int32_t stages, std::int32_t count) { return 2 * stages * count; },
     1}};

TEST(LockStep, AMicroBatchRunsItsStagesInConsecutiveTimestepsOnTheirDevices) {
  for (const TimestepRule& rule : kTimestepRules) {
    for (std::int32_t stages = 2; stages <= 6; ++stages) {
      for (const std::int32_t count : {2 * stages, 4 * stages}) {
        SCOPED_TRACE(std::string(name(rule.kind)) + " " + std::to_string(stages));
        const CycleTable table = cycleTable(rule.kind, stageStack(stages, count));
        EXPECT_EQ(table.cycles, rule.timesteps(stages, count));
        std::int32_t cells = 0;
        for (std::int32_t d = 0; d < stages; ++d) {
          const auto& row = table.devices[static_cast<std::size_t>(d)];
          for (std::int32_t cycle = 0; cycle < table.cycles; ++cycle) {
            const std::vector<Cell>& held = row[static_cast<std::size_t>(cycle)];
            EXPECT_LE(held.size(), rule.most);
            for (const Cell& cell : held) {
              const std::int32_t step =
                  cell.letter == 'F' ? cell.stage : 2 * stages - 1 - cell.stage;
              EXPECT_EQ(cell.stage, d);
              EXPECT_EQ(cycle, rule.start(stages, cell.microBatch) + step);
              ++cells;
            }
          }
        }
        EXPECT_EQ(cells, 2 * stages * count);  // every stage of every micro-batch, once
      }
    }
  }
}

/// The passes of one device in the order of its row, as "F0(0) B0(0)".
std::string orderOfRow(const CycleTable& table, std::size_t device, std::int32_t stages) {
  std::string text;
  const auto add = [&](char letter, std::int32_t stage, std::int32_t m) {
    text += (text.empty() ? "" : " ") + cellText({Cell{letter, stage, m}});
  };
  for (const std::vector<Cell>& cells : table.devices[device]) {
    for (const Cell& cell : cells) {
      if (cell.letter != 'S') {
        add(cell.letter, cell.stage, cell.microBatch);
        continue;
      }
      // Popart counts on through the backward pass; its last stage has both passes.
      if (cell.stage < stages) {
        add('F', cell.stage, cell.microBatch);
      }
      if (cell.stage >= stages - 1) {
        add('B', 2 * stages - 2 - cell.stage, cell.microBatch);
      }
    }
  }
  return text;
}

TEST(LockStep, OrdersThatRunAreTheRowsOfTheTables) {
  for (const PipelineKind kind : {PipelineKind::Grouped,
                                  PipelineKind::Interleaved,
                                  PipelineKind::Sequential,
                                  PipelineKind::Popart}) {
    for (std::int32_t stages = 2; stages <= 5; ++stages) {
      PipelineProblem problem = stageStack(stages, 4 * stages);
      for (std::int32_t s = 0; s < stages; ++s) {  // uneven costs change no order
        problem.costs.push_back({.forward = 3 + s, .backwardInput = 1, .backwardWeight = 7 - s});
      }
      const CycleTable table = cycleTable(kind, problem);
      const PipelineSchedule schedule = schedulePipeline(kind, problem);
      for (std::size_t d = 0; d < schedule.devices.size(); ++d) {
        std::string order;
        for (const Work& work : schedule.devices[d]) {
          const char letter = work.kind == WorkKind::Forward ? 'F' : 'B';
          order +=
              (order.empty() ? "" : " ") + cellText({Cell{letter, work.stage, work.microBatch}});
        }
        EXPECT_EQ(order, orderOfRow(table, d, stages)) << name(kind) << " of " << stages;
      }
    }
  }
}

TEST(LockStep, RotationsOfAPlainStackAreTheEvenOnes) {
  EXPECT_THAT(overlapRotations({{0}, {1}, {2}, {2}, {1}, {0}}), ElementsAre(0, 2, 4));
  EXPECT_THAT(overlapRotations({{0}}), ElementsAre(0));
}

TEST(LockStep, RotationsAvoidDevicesThatAreRevisited) {
  EXPECT_THAT(overlapRotations({{0}, {1}, {2}, {0}, {0}, {2}, {1}, {0}}), ElementsAre(0, 2));
  const PipelineProblem problem{.deviceOfStage = {0, 1, 2, 0}, .microBatches = 4};
  EXPECT_EQ(countRule(PipelineKind::Interleaved, problem).multiple, 2);
  const CycleTable table = cycleTable(PipelineKind::Interleaved, problem);
  for (const auto& [cycle, m] : {std::pair{0, 0}, {2, 1}, {8, 2}, {10, 3}}) {
    const auto& cells = table.devices[0][static_cast<std::size_t>(cycle)];
    ASSERT_EQ(cells.size(), 1U);
    EXPECT_EQ(cells[0], (Cell{'F', 0, m}));
  }
}

using Steps = std::vector<std::vector<std::int32_t>>;

bool meet(const Steps& devices, std::int32_t a, std::int32_t b) {
  for (std::size_t t = 0; t < devices.size(); ++t) {
    const auto at = [&](std::int32_t lag) {
      return devices[(t + static_cast<std::size_t>(lag)) % devices.size()];
    };
    if (at(a) == at(b)) {
      return true;
    }
  }
  return false;
}

/// The members of a set of rotations given as bits, or none if two of them meet.
std::vector<std::int32_t> rotationsOf(const Steps& devices, std::uint32_t bits) {
  std::vector<std::int32_t> set;
  for (std::int32_t a = 0; a < static_cast<std::int32_t>(devices.size()); ++a) {
    if ((bits >> static_cast<std::uint32_t>(a) & 1U) == 0) {
      continue;
    }
    for (const std::int32_t b : set) {
      if (meet(devices, a, b)) {
        return {};
      }
    }
    set.push_back(a);
  }
  return set;
}

TEST(LockStep, RotationsAreTheFirstOfTheLargestSets) {
  std::uint32_t state = 12345;
  for (std::uint32_t trial = 0; trial < 200; ++trial) {
    Steps devices;
    for (std::uint32_t i = 0; i < 1 + trial % 9; ++i) {
      state = state * 1664525U + 1013904223U;
      devices.push_back({static_cast<std::int32_t>((state >> 16U) % 4)});
    }
    std::vector<std::int32_t> best;
    for (std::uint32_t bits = 1; bits < 1U << devices.size(); ++bits) {
      const std::vector<std::int32_t> set = rotationsOf(devices, bits);
      if (set.size() > best.size() || (set.size() == best.size() && set < best)) {
        best = set;
      }
    }
    EXPECT_EQ(overlapRotations(devices), best) << "trial " << trial;
  }
}

TEST(LockStep, QueuesAreAsDeepAsTheTablesSay) {
  EXPECT_THAT(fifoDepths(PipelineKind::Grouped, stageStack(4, 8)), ElementsAre(6, 4, 2, 0));
  EXPECT_THAT(fifoDepths(PipelineKind::Interleaved, stageStack(4, 8)), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(fifoDepths(PipelineKind::Sequential, stageStack(4, 8)), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(inFlight(PipelineKind::Grouped, stageStack(4, 8)), ElementsAre(8, 6, 4, 2));
  EXPECT_THAT(inFlight(PipelineKind::Interleaved, stageStack(4, 8)), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(inFlight(PipelineKind::Sequential, stageStack(4, 8)), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(stashEntries(stageStack(4, 8)), ElementsAre(7, 5, 3, 0));
  EXPECT_THAT(stashEntries(stageStack(3, 8, false)), ElementsAre(0, 0, 0));
}

TEST(LockStep, InFlightIsWhatTheEventDrivenRunHolds) {
  for (const PipelineKind kind :
       {PipelineKind::Sequential, PipelineKind::Grouped, PipelineKind::Interleaved}) {
    for (std::int32_t stages = 1; stages <= 6; ++stages) {
      const PipelineProblem problem = stageStack(stages, 4 * stages);
      EXPECT_EQ(schedulePipeline(kind, problem).stashDepth, inFlight(kind, problem))
          << name(kind) << " " << stages;
    }
  }
}

TEST(LockStep, SaysWhatCountsTheOriginalSystemsTake) {
  const auto objection = [](PipelineKind kind, std::int32_t stages, std::int32_t count) {
    return countObjection(kind, stageStack(stages, count)).value_or("none");
  };
  EXPECT_EQ(objection(PipelineKind::Popart, 3, 5), "none");
  EXPECT_THAT(objection(PipelineKind::Popart, 3, 4), HasSubstr("at least 5 micro-batches"));
  EXPECT_EQ(objection(PipelineKind::Grouped, 2, 8), "none");
  EXPECT_THAT(objection(PipelineKind::Grouped, 2, 6), HasSubstr("multiple of 4 micro-batches"));
  EXPECT_EQ(objection(PipelineKind::Interleaved, 3, 9), "none");
  EXPECT_THAT(objection(PipelineKind::Interleaved, 3, 7), HasSubstr("multiple of 3"));
  EXPECT_EQ(objection(PipelineKind::Sequential, 3, 1), "none");
}

TEST(LockStep, CountsThatAreNoMultipleRunWithARemainder) {
  EXPECT_EQ(rowsOf(PipelineKind::Interleaved, stageStack(2, 3)),
            Rows({"F0(0) | - | F0(1) | B0(0) | F0(2) | B0(1) | - | B0(2)",
                  "- | F1(0) | B1(0) | F1(1) | B1(1) | F1(2) | B1(2) | -"}));
  EXPECT_EQ(rowsOf(PipelineKind::Popart, stageStack(2, 1)),
            Rows({"S0(0) | - | S2(0)", "- | S1(0) | -"}));
}

TEST(LockStep, ConcurrentStagesTakeOneTimestep) {
  const PipelineProblem problem{
      .deviceOfStage = {0, 1, 2}, .slotOfStage = {0, 1, 1}, .microBatches = 2};
  EXPECT_EQ(rowsOf(PipelineKind::Grouped, problem),
            Rows({"F0(0) | F0(1) | - | B0(0) | B0(1)",
                  "- | F1(0) | F1(1) B1(0) | B1(1) | -",
                  "- | F2(0) | F2(1) B2(0) | B2(1) | -"}));
  EXPECT_EQ(countRule(PipelineKind::Grouped, problem).multiple, 4);
}

TEST(LockStep, RefusesKindsWithoutCyclesAndTablesOfNoUse) {
  try {
    cycleTable(PipelineKind::ZeroBubble, stageStack(2, 2));
    FAIL() << "zero-bubble has no cycles";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("has no cycles"));
  }
  EXPECT_THROW(cycleTable(PipelineKind::Grouped, stageStack(1, 1 << 27)), InvalidArgument);
  EXPECT_THROW(overlapRotations({}), InvalidArgument);
}

}  // namespace
}  // namespace sluice::schedule
