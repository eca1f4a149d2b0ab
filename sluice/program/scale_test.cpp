// Lowering and proving grow no faster than the number of tasks: counted in work, not in seconds,
// wherever a count exists; the times are printed for people.
#include <chrono>
#include <iostream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sluice/program/verify.h"
#include "tests/support/staged_models.h"
#include "tests/support/toy_kernels.h"

namespace sluice::program {
namespace {

std::size_t tasksOf(const Program& program) {
  std::size_t count = 0;
  for (const Lane& lane : program.lanes) {
    count += lane.tasks.size();
  }
  return count;
}

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Scale, SixtyFourStagesAndFiveHundredMicroBatchesAreLoweredAndProven) {
  for (const auto& [stages, microBatches] : {std::pair(16, 128), {32, 256}, {64, 512}}) {
    const ir::Graph graph = sluice::testing::chainModel({.blocks = stages});
    sluice::testing::ChainRun run{.microBatches = microBatches};
    for (std::int32_t s = 0; s < stages; ++s) {
      run.deviceOfStage.push_back(s);
    }
    const auto start = std::chrono::steady_clock::now();
    const sluice::testing::Chain chain = sluice::testing::lowerChain(graph, run, toyTargets());
    const double lowering = secondsSince(start);
    const auto proof = std::chrono::steady_clock::now();
    verify(chain.program);
    const double proving = secondsSince(proof);
    const std::size_t tasks = tasksOf(chain.program);
    // Forward, backward, a copy each way between neighbours, two feeds, two drains; and once per
    // round a pack and an update for every stage.
    const auto s = static_cast<std::size_t>(stages);
    const auto m = static_cast<std::size_t>(microBatches);
    EXPECT_EQ(tasks, m * (2 * s + 2 * (s - 1) + 4) + 2 * s);
    EXPECT_LE(chain.program.waits.size(), 8 * tasks);
    EXPECT_LE(chain.program.slots.size(), 8 * tasks);
    std::cout << fmt::format(
        "{} stages, {} micro-batches: {} tasks, {} waits, place+schedule+lower {:.2f} s, verify "
        "{:.2f} s\n",
        stages,
        microBatches,
        tasks,
        chain.program.waits.size(),
        lowering,
        proving);
  }
}

}  // namespace
}  // namespace sluice::program
