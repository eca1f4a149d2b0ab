// How well steps are predicted: MNIST and a small GPT on 1 to 4 devices under every strategy, the
// step's time worked out by the simulator beside the median of measured steps and their spread.
// The simulator knows what `sluice calibrate` measures, kernels and copies alone. Prints a table.
//
//   bench_predict [calls [seed [words]]]
//
// Four more configurations are drawn by the seed; words choose those whose names have them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/support/compare.h"
#include "bench/support/shapes.h"
#include "sluice/api/compiled_program.h"
#include "sluice/base/spin.h"
#include "sluice/devices/calibrate.h"
#include "sluice/devices/registry.h"
#include "sluice/devices/sim/kernel_cost.h"
#include "sluice/devices/sim/sim_device.h"
#include "sluice/runtime/kernel_times.h"
#include "sluice/runtime/sim_costs.h"
#include "sluice/sluice.h"
#include "tests/support/networks.h"
#include "tests/support/random_tensor.h"

namespace {

using namespace sluice;

constexpr std::int64_t kAccumulation = 8;
constexpr examples::GptShape kGpt = {.width = 64, .layers = 2, .batchSize = 8};

enum class Kind { Sharded, Gpipe, OneForwardOneBackward, Interleaved, Serial, Parallel };
constexpr const char* kKindNames[] = {
    "sharded", "grouped", "1f1b", "interleaved", "serial phases", "parallel phases"};

struct Configuration {
  bool gpt = false;
  Kind kind = Kind::Sharded;
  std::int32_t devices = 1;

  std::string name() const {
    return fmt::format(
        "{} {} on {}", gpt ? "GPT" : "MNIST", kKindNames[static_cast<int>(kind)], devices);
  }
};

/// The four blocks of a network, divided among so many devices.
std::vector<std::vector<std::string>> cut(bool gpt, std::int32_t devices) {
  const std::vector<std::string> blocks =
      gpt ? std::vector<std::string>{"embedding", "layer0", "layer1", "head"}
          : std::vector<std::string>{"B1", "B2", "B3", "B4"};
  std::vector<std::vector<std::string>> parts(static_cast<std::size_t>(devices));
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    parts[b * parts.size() / blocks.size()].push_back(blocks[b]);
  }
  return parts;
}

Strategy strategyOf(const Configuration& c) {
  const bool phased = c.kind == Kind::Serial || c.kind == Kind::Parallel;
  std::vector<Stage> stages;
  std::vector<Phase> phases;
  for (const std::vector<std::string>& part : cut(c.gpt, phased ? 4 : c.devices)) {
    stages.push_back(Stage(part).device(static_cast<std::int32_t>(stages.size())));
    phases.push_back(Phase(Stage(part)));
  }
  switch (c.kind) {
    case Kind::Sharded:
      return ShardedExecution(stages);
    case Kind::Serial:
      return SerialPhasedExecution(phases);
    case Kind::Parallel:
      return ParallelPhasedExecution(phases);
    case Kind::Gpipe:
      return PipelinedExecution(stages).schedule("grouped");
    case Kind::Interleaved:
      return PipelinedExecution(stages).schedule("interleaved");
    case Kind::OneForwardOneBackward:
      break;
  }
  return PipelinedExecution(stages).schedule("1f1b");
}

std::vector<HostTensor> inputsOf(bool gpt) {
  if (gpt) {
    const TensorType ids{DType::I64, {kGpt.batchSize * kAccumulation, kGpt.context}};
    return {testing::randomTensor(1, ids, 0, 128), testing::randomTensor(2, ids, 0, 128)};
  }
  const std::int64_t images = bench::kMnistBatch * kAccumulation;
  return {testing::randomTensor(1, {DType::F32, {images, 1, 28, 28}}, -1, 1),
          testing::randomTensor(2, {DType::I64, {images}}, 0, 10)};
}

struct Outcome {
  double predicted = 0;  ///< milliseconds
  double measured = 0;
  double spread = 0;  ///< a share
  double cpu = 0;     ///< CPU time of a step; much less than measured: the machine was busy
};

/// Every kernel of the program is timed alone, then the simulator runs the program.
double predict(const program::Program& program, devices::sim::SimTarget target) {
  std::vector<std::unique_ptr<device::Device>> made;
  std::vector<device::Device*> all;
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    made.push_back(devices::makeDevice({}));
    all.push_back(made.back().get());
  }
  for (const runtime::KernelTime& time : runtime::measureKernels(program, all)) {
    target.kernels[devices::sim::kernelKey(*time.call)] = time.seconds;
  }
  const auto device = devices::sim::makeSimDevice({.target = std::move(target)});
  const device::CostModel* model = device::costModelOf(*device);
  return 1e3 * runtime::simulate(
                   program, runtime::costsOf(program, std::span(&model, 1)), {.hasPacked = true})
                   .seconds();
}

template <class Net>
Outcome run(Net& net, const Configuration& c, const devices::sim::SimTarget& target, int calls) {
  Options options;
  options.device("cpu").threads(1).showCompilationProgressBar(false).setExecutionStrategy(
      strategyOf(c));
  options.training.gradientAccumulation(kAccumulation);
  auto model = trainingModel(net, options, optim::AdamW(1e-3));
  const std::vector<HostTensor> inputs = inputsOf(c.gpt);
  model.compile(inputs);
  // The machine's speed changes with time: kernels and steps are measured in turns.
  constexpr int kTurns = 5;
  std::vector<Outcome> turns;
  for (int turn = 0; turn < kTurns; ++turn) {
    const double predicted = predict(model.program(), target);
    const bench::CallTimes times =
        bench::timeCalls([&] { model.run(inputs); }, 3, std::max(1, calls / kTurns));
    turns.push_back({predicted, times.wall * 1e-3, times.spread, times.cpu * 1e-3});
  }
  const auto median = [&](double Outcome::*figure) {
    std::ranges::sort(turns, {}, figure);
    return turns[kTurns / 2].*figure;
  };
  Outcome outcome{.predicted = median(&Outcome::predicted),
                  .spread = median(&Outcome::spread),
                  .cpu = median(&Outcome::cpu)};
  outcome.measured = median(&Outcome::measured);  // last: it leaves the turns in its order
  const double range = turns.back().measured - turns.front().measured;
  outcome.spread = std::max(outcome.spread, range / outcome.measured);
  return outcome;
}

std::vector<Configuration> configurations(unsigned seed) {
  std::vector<Configuration> all;
  for (const bool gpt : {false, true}) {
    all.push_back({gpt, Kind::Sharded, 1});
    all.push_back({gpt, Kind::OneForwardOneBackward, 2});
    all.push_back({gpt, Kind::Gpipe, 4});
    all.push_back({gpt, Kind::Sharded, gpt ? 3 : 2});
    all.push_back({gpt, Kind::Serial, 1});
    all.push_back({gpt, Kind::Parallel, 2});
  }
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) {
    return std::uniform_int_distribution<unsigned>(0, n - 1)(random);
  };
  for (int i = 0; i < 4; ++i) {
    const auto kind = static_cast<Kind>(below(4));
    all.push_back({below(2) == 1, kind, static_cast<std::int32_t>(1 + below(4))});
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::max(1, std::atoi(argv[1])) : 30;
  const auto seed = static_cast<unsigned>(argc > 2 ? std::atoi(argv[2]) : 1);
  const std::string words = argc > 3 ? argv[3] : "";
  const auto device = devices::makeDevice({});
  const devices::sim::SimTarget target = devices::calibrate(*device);
  fmt::print("{} cores; steps of {} micro-batches, {} timed; four configurations by seed {}\n",
             availableCores(),
             kAccumulation,
             calls,
             seed);
  fmt::print(
      "{:.4g} GB/s between devices, {:.4g} us from thread to thread, {:.4g} us to wake one\n\n",
      target.machine.peer.bytesPerSecond * 1e-9,
      target.machine.taskSeconds * 1e6,
      target.machine.wakeSeconds * 1e6);
  fmt::print(
      "| configuration | predicted ms | measured ms | CPU ms | spread | error | allowed | |\n");
  fmt::print("|---|---:|---:|---:|---:|---:|---:|---|\n");
  int outside = 0;
  for (const Configuration& c : configurations(seed)) {
    if (c.name().find(words) == std::string::npos) {
      continue;
    }
    Outcome outcome;
    if (c.gpt) {
      examples::Gpt net(kGpt);
      outcome = run(net, c, target, calls);
    } else {
      testing::MnistBlocks net;
      outcome = run(net, c, target, calls);
    }
    const double error = outcome.predicted / outcome.measured - 1;
    const double allowed = std::max(outcome.spread, c.devices > availableCores() ? 0.2 : 0.1);
    outside += std::abs(error) > allowed ? 1 : 0;
    fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {:.1f} % | {:+.1f} % | {:.0f} % | {} |\n",
               c.name(),
               outcome.predicted,
               outcome.measured,
               outcome.cpu,
               100 * outcome.spread,
               100 * error,
               100 * allowed,
               std::abs(error) > allowed ? "outside" : "");
  }
  fmt::print("\n{} outside\n", outside);
  return 0;
}
