// Time of scheduling against the number of micro-batches: it has to grow linearly.
//
//   bench_schedule [stages]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>

#include <fmt/core.h>

#include "sluice/schedule/pipeline.h"

namespace {

using sluice::schedule::allPipelineKinds;
using sluice::schedule::PipelineKind;
using sluice::schedule::PipelineProblem;
using sluice::schedule::PipelineSchedule;
using sluice::schedule::roundRobinPlacement;
using sluice::schedule::vPlacement;

PipelineProblem unevenProblem(PipelineKind kind, std::int32_t stages, std::int32_t microBatches) {
  PipelineProblem problem{.microBatches = microBatches};
  problem.deviceOfStage = kind == PipelineKind::Chunked      ? roundRobinPlacement(stages / 2, 2)
                          : kind == PipelineKind::ZeroBubble ? vPlacement(stages / 2)
                                                             : roundRobinPlacement(stages, 1);
  std::mt19937 random(1);
  const auto draw = [&] { return 80 + static_cast<std::int64_t>(random() % 50); };
  for (std::size_t i = 0; i < problem.deviceOfStage.size(); ++i) {
    problem.costs.push_back({draw(), draw(), draw()});
  }
  return problem;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int32_t stages = argc > 1 ? std::max(2, std::atoi(argv[1])) : 64;
  fmt::print("{} stages; milliseconds, and makespan over bound, for micro-batches\n", stages);
  fmt::print("{:<12}", "schedule");
  for (const std::int32_t m : {64, 128, 256, 512, 1024, 2048}) {
    fmt::print("{:>16}", m);
  }
  fmt::print("\n");
  for (const PipelineKind kind : allPipelineKinds()) {
    fmt::print("{:<12}", name(kind));
    for (const std::int32_t m : {64, 128, 256, 512, 1024, 2048}) {
      const PipelineProblem problem = unevenProblem(kind, stages, m);
      const auto begin = std::chrono::steady_clock::now();
      const PipelineSchedule schedule = schedulePipeline(kind, problem);
      const std::chrono::duration<double, std::milli> time =
          std::chrono::steady_clock::now() - begin;
      fmt::print("{:>9.1f} {:>6.3f}",
                 time.count(),
                 static_cast<double>(schedule.makespan) / static_cast<double>(schedule.bound));
    }
    fmt::print("\n");
  }
  return 0;
}
