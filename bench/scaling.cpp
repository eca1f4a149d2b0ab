// bench_scaling [us of a message] [GB/s] [us of each of many messages]: how a training would scale
// over processes that are not there: simulated, from the messages that bench_processes measures and
// the rates of a core that are written below. Every process has one device, a core and a host of
// its own, and the links of different processes do not disturb each other.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sluice/api/compiled_program.h"
#include "sluice/devices/sim/sim_device.h"
#include "sluice/runtime/sim_costs.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using parallel::PipelinedExecution;
using parallel::Stage;

constexpr std::int64_t kWidth = 512;
constexpr std::int64_t kRows = 64;

struct Net : nn::Module {
  std::vector<std::unique_ptr<nn::Linear>> layers;
  Net() {
    for (int i = 0; i < 16; ++i) {
      layers.push_back(
          std::make_unique<nn::Linear>(*this, fmt::format("layer{}", i), kWidth, kWidth));
    }
  }
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const nn::Block block(fmt::format("b{}", i / 4), static_cast<std::int32_t>(i / 4));
      x = nn::relu((*layers[i])(x));
    }
    const nn::Block block("b3", 3);
    return nn::mseLoss(x, y);
  }
};

struct Case {
  std::string name;
  PipelinedExecution strategy;
  std::int64_t microBatches;
  std::int32_t stages;
};

/// The program for so many replicas; it is compiled and runs nowhere.
class Planned {
 public:
  Planned(const Case& made, std::int64_t replicas)
      : model_(trainingModel(net_, optionsOf(made, replicas), optim::AdamW(0.001))) {
    const TensorType type{DType::F32, Shape{kRows, kWidth}};
    model_.compile(std::vector<TensorType>{type, type});
  }
  const program::Program& program() const { return model_.program(); }

 private:
  static Options optionsOf(const Case& made, std::int64_t replicas) {
    Options options;
    options.distributed.disable();
    options.connectionType(ConnectionType::Never).threads(1).replicationFactor(replicas);
    options.training.gradientAccumulation(made.microBatches);
    options.setExecutionStrategy(made.strategy);
    return options;
  }
  Net net_;
  TypedModel<Net> model_;
};

double secondsOf(const program::Program& program,
                 const devices::sim::SimTarget& target,
                 std::int32_t replicas) {
  const auto device = devices::sim::makeSimDevice({.target = target});
  const device::CostModel* model = device::costModelOf(*device);
  return runtime::simulate(program,
                           runtime::costsOf(program, std::span(&model, 1), replicas),
                           {.replicas = replicas, .hasPacked = true, .keepsTimes = false})
      .seconds();
}

struct Messages {
  double microseconds = 30;
  double gigabytes = 1.2;
  double further = 10;
};

/// A core; its rates are assumed.
devices::sim::SimTarget targetOf(const Messages& messages) {
  devices::sim::SimTarget target;
  target.name = "core";
  target.clockHz = 1'000'000'000;
  target.flops = {.f32 = 60e9};
  target.memoryBytesPerSecond = 10e9;
  target.kernelTicks = 2000;
  target.machine = {.peer = {.bytesPerSecond = 5e9, .latencySeconds = 2e-6},
                    .host = {.bytesPerSecond = 5e9, .latencySeconds = 2e-6},
                    .sumBytesPerSecond = 8e9,
                    .syncSeconds = 5e-6,
                    .taskSeconds = 2e-6,
                    .cores = 1,
                    .process = {.bytesPerSecond = 1e9 * messages.gigabytes,
                                .latencySeconds = 1e-6 * messages.microseconds},
                    .messageSeconds = 1e-6 * messages.further};
  return target;
}

void printCurve(const Case& made, devices::sim::SimTarget target) {
  double first = 0;
  for (std::int32_t replicas = 1; replicas * made.stages <= 1024; replicas *= 4) {
    target.machine.processes = replicas * made.stages;
    const Planned planned(made, replicas);
    const double seconds = secondsOf(planned.program(), target, replicas);
    first = replicas == 1 ? seconds : first;
    fmt::print("{:<12} {:12} {:9} {:9.1f} ms {:4.0f} %\n",
               made.name,
               made.microBatches,
               replicas * made.stages,
               1e3 * seconds,
               100 * first / seconds);
  }
}

void run(const Messages& messages) {
  fmt::print("simulated; a message {} us and {} GB/s, of many {} us\n",
             messages.microseconds,
             messages.gigabytes,
             messages.further);
  fmt::print("{:<12} {:>12} {:>9} {:>12} {:>6}\n", "", "micro-batches", "devices", "step", "speed");
  const auto cases = [](std::int64_t microBatches) {
    return std::vector<Case>{
        {.name = "replicas",
         .strategy = PipelinedExecution({Stage("b0", "b1", "b2", "b3").device(0)}),
         .microBatches = microBatches,
         .stages = 1},
        {.name = "4 stages",
         .strategy = PipelinedExecution({"b0", "b1", "b2", "b3"}),
         .microBatches = microBatches,
         .stages = 4}};
  };
  const devices::sim::SimTarget target = targetOf(messages);
  for (const std::int64_t microBatches : {8, 32}) {
    for (const Case& made : cases(microBatches)) {
      printCurve(made, target);
    }
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  try {
    sluice::Messages messages;
    double* const values[] = {&messages.microseconds, &messages.gigabytes, &messages.further};
    for (int i = 1; i < std::min(argc, 4); ++i) {
      *values[i - 1] = std::atof(argv[i]);
    }
    sluice::run(messages);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_scaling: {}\n", error.what());
    return 1;
  }
}
