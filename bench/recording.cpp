// What recording costs: a training step of the MNIST network over four devices with and without
// Options::enableProfiling, in turns. The steps that are written to files are not counted. Prints
// one JSON object.
//
//   bench_recording [calls]
#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>

#include "bench/support/compare.h"
#include "bench/support/shapes.h"
#include "sluice/sluice.h"
#include "tests/support/networks.h"
#include "tests/support/random_tensor.h"
#include "tests/support/temp_folder.h"

namespace {

using namespace sluice;

constexpr std::int64_t kMicroBatches = 10;

Options optionsWith(const std::string& folder) {
  Options options;
  options.deviceIterations(10).threads(1).showCompilationProgressBar(false).enableProfiling(folder);
  options.setExecutionStrategy(PipelinedExecution{
      Stage("B1").device(0), Stage("B2").device(1), Stage("B3").device(2), Stage("B4").device(3)});
  options.training.gradientAccumulation(kMicroBatches);
  return options;
}

/// Microseconds of single calls, wall clock and CPU.
struct Samples {
  std::vector<double> wall;
  std::vector<double> cpu;
  void add(const bench::CallTimes& times) {
    wall.push_back(times.wall);
    cpu.push_back(times.cpu);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::max(1, std::atoi(argv[1])) : 100;
  const testing::TempFolder folder;
  testing::MnistBlocks first;
  testing::MnistBlocks second;
  auto plain = trainingModel(first, optionsWith(""), optim::AdamW(1e-3));
  auto recorded = trainingModel(second, optionsWith(folder.path().string()), optim::AdamW(1e-3));
  const std::int64_t images = bench::kMnistBatch * 10 * kMicroBatches;
  const std::array<HostTensor, 2> step = {
      testing::randomTensor(1, {DType::F32, {images, 1, 28, 28}}, -1, 1),
      testing::randomTensor(2, {DType::I64, {images}}, 0, 10)};
  constexpr int kWarmUp = 5;  // three are traced
  for (int i = 0; i < kWarmUp; ++i) {
    plain.run(step);
    recorded.run(step);
  }
  Samples without;
  Samples with;
  for (int i = 0; i < calls; ++i) {
    without.add(bench::timeCalls([&] { plain.run(step); }, 0, 1));
    with.add(bench::timeCalls([&] { recorded.run(step); }, 0, 1));
  }
  const double plainWall = bench::median(without.wall);
  const double plainCpu = bench::median(without.cpu);
  const bench::Json report = {
      {"us_per_step", plainWall},
      {"us_per_step_recorded", bench::median(with.wall)},
      {"cost", bench::median(with.wall) / plainWall - 1},
      {"cpu_us_per_step", plainCpu},
      {"cpu_us_per_step_recorded", bench::median(with.cpu)},
      {"cpu_cost", bench::median(with.cpu) / plainCpu - 1},
  };
  std::cout << report.dump(2) << "\n";
  return 0;
}
