// How the update of a phase takes turns with the state that it streams: none changes a bit; what is
// loaded and saved when, and the memory that it takes, are those of the schedule.
#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/program/virtual_clock.h"
#include "tests/e2e/remote_support.h"
#include "tests/e2e/runs_on_cpu.h"

namespace sluice {
namespace {

using testing::Bits;
using testing::deep;
using testing::DeepGpt;
using testing::DeepTraining;
using testing::differenceBetweenRounds;
using testing::mostBytes;

constexpr std::array kSchedules = {
    PhaseSchedule::Interleaving, PhaseSchedule::Batch, PhaseSchedule::BatchClusteredIO};

TEST(PhaseSchedules, GiveTheBitsOfOneDevice) {
  const Strategy whole =
      ShardedExecution(std::vector<Stage>{Stage("layer0", "layer1", "layer2", "layer3", "head")});
  const Bits expected = DeepTraining(deep(whole)).bits(2);
  for (const PhaseSchedule schedule : kSchedules) {
    for (const IoSchedule io : {IoSchedule::Preload, IoSchedule::OnDemand}) {
      for (const PhaseOrder order : {PhaseOrder::PhaseMajor, PhaseOrder::MicroBatchMajor}) {
        const std::vector<Phase> phases = DeepGpt::phases(4);
        for (const Strategy& strategy :
             {Strategy(SerialPhasedExecution(phases).order(order).io(io).schedule(schedule)),
              Strategy(ParallelPhasedExecution(phases).order(order).io(io).schedule(schedule))}) {
          SCOPED_TRACE(strategy.str());
          EXPECT_EQ(differenceBetweenRounds(expected, DeepTraining(deep(strategy)).bits(2)), "");
        }
      }
    }
  }
}

/// With clipping the update runs behind the loop; with shared state it has exchanges in its middle.
TEST(PhaseSchedules, CombineWithReplicasClippingAndSharedState) {
  const auto trained = [](const Strategy& strategy, bool clips, bool shares) {
    DeepGpt net(4, 32, 2, 8);
    Options options = deep(strategy);
    options.replicationFactor(2);
    if (shares) {
      options.tensorLocations.setOptimizerLocation(TensorLocationSettings()
                                                       .useReplicatedTensorSharding(true)
                                                       .minElementsForReplicatedTensorSharding(16));
    }
    auto model = trainingModel(net,
                               options,
                               optim::AdamW(optim::AdamOptions{
                                   .lr = 1e-2, .maxGradNorm = clips ? 0.1 : optim::kNoGradNorm}));
    const std::int64_t count = model.microBatchesPerStep() * 2;
    for (std::int64_t update = 0; update < 2; ++update) {
      model.run(testing::makeInputs(net.inputs(), update * count, count));
    }
    return testing::bitsOf(model.session());
  };
  const Strategy whole =
      ShardedExecution(std::vector<Stage>{Stage("layer0", "layer1", "layer2", "layer3", "head")});
  for (const bool clips : {false, true}) {
    const Bits expected = trained(whole, clips, false);
    for (const PhaseSchedule schedule : kSchedules) {
      const Strategy strategy = SerialPhasedExecution(DeepGpt::phases(4))
                                    .order(PhaseOrder::PhaseMajor)
                                    .schedule(schedule);
      SCOPED_TRACE(strategy.str());
      EXPECT_EQ(differenceBetweenRounds(expected, trained(strategy, clips, false)), "") << clips;
      EXPECT_EQ(differenceBetweenRounds(expected, trained(strategy, clips, true)), "") << clips;
    }
  }
}

/// The update of one phase as it runs when computing takes much longer than loading.
struct UpdateTimes {
  std::int64_t firstKernel = std::numeric_limits<std::int64_t>::max();
  std::int64_t lastKernel = 0;  ///< its end
  std::int64_t lastFetch = 0;   ///< of state; its end
  std::int64_t firstFlush = std::numeric_limits<std::int64_t>::max();
};

UpdateTimes timesOfUpdate(const program::Program& p, std::int32_t stage) {
  const auto isOurs = [&](const program::Segment& segment) {
    return segment.kind == program::SegmentKind::Update && segment.inLoop && segment.bucket >= 0 &&
           segment.stage == stage;
  };
  std::set<std::int32_t> touched;
  for (const program::Segment& segment : p.segments) {
    for (const device::KernelCall& call : segment.calls) {
      if (isOurs(segment)) {
        touched.insert(call.inputs.begin(), call.inputs.end());
        touched.insert(call.outputs.begin(), call.outputs.end());
      }
    }
  }
  program::ClockCosts costs;
  costs.segments.assign(p.segments.size(), 100);
  costs.transfers.assign(p.transfers.size(), 1);
  const program::ClockRun run = program::runOnClock(p, costs);
  UpdateTimes times;
  for (std::size_t l = 0; l < p.lanes.size(); ++l) {
    for (std::size_t t = 0; t < p.lanes[l].tasks.size(); ++t) {
      const program::Task& task = p.lanes[l].tasks[t];
      const program::TaskSpan span = run.lanes[l][t];
      const auto subject = static_cast<std::size_t>(task.subject);
      if (task.kind == program::TaskKind::Run && isOurs(p.segments[subject])) {
        times.firstKernel = std::min(times.firstKernel, span.start);
        times.lastKernel = std::max(times.lastKernel, span.end);
      } else if (task.kind == program::TaskKind::Transfer) {
        const program::Transfer& transfer = p.transfers[subject];
        if (touched.contains(transfer.to.value)) {
          times.lastFetch = std::max(times.lastFetch, span.end);
        } else if (touched.contains(transfer.from.value)) {
          times.firstFlush = std::min(times.firstFlush, span.start);
        }
      }
    }
  }
  return times;
}

TEST(PhaseSchedules, DecideWhenStateIsLoadedAndSaved) {
  const auto programOf = [](PhaseSchedule schedule) {
    return DeepTraining(deep(SerialPhasedExecution(DeepGpt::phases(4))
                                 .order(PhaseOrder::PhaseMajor)
                                 .schedule(schedule)))
        .program();
  };
  const program::Program interleaved = programOf(PhaseSchedule::Interleaving);
  const program::Program batched = programOf(PhaseSchedule::Batch);
  const program::Program clustered = programOf(PhaseSchedule::BatchClusteredIO);
  for (const std::int32_t stage : {1, 2}) {
    const UpdateTimes i = timesOfUpdate(interleaved, stage);
    EXPECT_GT(i.lastFetch, i.firstKernel);
    EXPECT_LT(i.firstFlush, i.lastKernel);
    const UpdateTimes b = timesOfUpdate(batched, stage);
    EXPECT_LE(b.lastFetch, b.firstKernel);
    EXPECT_LT(b.firstFlush, b.lastKernel);
    const UpdateTimes c = timesOfUpdate(clustered, stage);
    EXPECT_LE(c.lastFetch, c.firstKernel);
    EXPECT_GE(c.firstFlush, c.lastKernel);
  }
}

TEST(PhaseSchedules, InterleavingTakesLessMemoryAndIsTakenWhereTheOthersDoNotFit) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kCountsCpuBytes;
  }
  const auto planned = [](PhaseSchedule schedule, std::size_t budget) {
    Options options = deep(SerialPhasedExecution(DeepGpt::phases(4))
                               .order(PhaseOrder::PhaseMajor)
                               .io(IoSchedule::Preload)
                               .schedule(schedule));
    options.memoryPerDevice(budget);
    return mostBytes(DeepTraining(options).program());
  };
  const std::size_t batch = planned(PhaseSchedule::Batch, 0);
  const std::size_t interleaving = planned(PhaseSchedule::Interleaving, 0);
  EXPECT_LT(interleaving, batch);
  EXPECT_EQ(planned(PhaseSchedule::Automatic, 0), batch);
  EXPECT_EQ(planned(PhaseSchedule::Automatic, interleaving), interleaving);
  EXPECT_THROW(planned(PhaseSchedule::Batch, interleaving), OutOfMemory);
}

}  // namespace
}  // namespace sluice
