// What a pipeline gains: six equal layers, accumulation 16, in two stages on two devices of one
// thread against one device of one thread, and in four uneven stages on four devices that share the
// cores. The cases take turns, so that they see the same machine. Prints one JSON object: medians,
// spread and the ratios.
//
//   bench_pipeline [repeats]
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/compare.h"
#include "bench/support/shapes.h"
#include "sluice/api/compiled_program.h"
#include "sluice/sluice.h"
#include "tests/support/random_tensor.h"

namespace {

using namespace sluice;
using bench::Json;

constexpr std::int64_t kWidth = bench::kStack.width;
constexpr std::int64_t kBatch = bench::kStack.batch;
constexpr std::int32_t kAccumulation = 16;

/// `layers` equal layers, one block each, and the loss in a block of its own. What is added to the
/// input is trained too: without it the first layer would need no gradient of its input, and the
/// layers would not be equal.
struct Stack : nn::Module {
  Stack(int count, std::int64_t width)
      : offset(addParameter("offset", {DType::F32, Shape{width}}, ir::Initializer::constant(0))),
        layers(*this, "layers") {
    for (int i = 0; i < count; ++i) {
      layers.emplace(width, width);
    }
  }

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor target) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const nn::Block block("L" + std::to_string(i));
      x = nn::relu(layers[i](i == 0 ? x + offset.use() : x));
    }
    const nn::Block block("loss");
    return {x, nn::mseLoss(x, target)};
  }

  nn::Parameter& offset;
  nn::ModuleList<nn::Linear> layers;
};

class Case {
 public:
  Case(int layers,
       const std::vector<int>& counts,
       const char* schedule,
       std::int64_t width = kWidth,
       std::int64_t batch = kBatch)
      : net_(layers, width) {
    std::vector<parallel::Stage> stages;
    int next = 0;
    for (const int count : counts) {
      std::vector<std::string> blocks;
      for (int i = 0; i < count; ++i) {
        blocks.push_back("L" + std::to_string(next++));
      }
      if (next == layers) {
        blocks.emplace_back("loss");
      }
      stages.emplace_back(blocks);
    }
    Options options;
    options.setExecutionStrategy(parallel::PipelinedExecution(stages).schedule(schedule));
    options.showCompilationProgressBar(false);
    options.training.gradientAccumulation(kAccumulation);
    model_ = std::make_unique<TypedModel<Stack>>(net_, options, optim::SGD(1e-3).clone());
    const TensorType type{DType::F32, {batch * kAccumulation, width}};
    step_ = {testing::randomTensor(1, type, -1, 1), testing::randomTensor(2, type, -1, 1)};
    model_->compile(step_);
    run();
  }

  double run() {
    const auto start = std::chrono::steady_clock::now();
    model_->run(step_);
    times_.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return times_.back();
  }

  /// Of all lanes in one call.
  std::size_t tasks() const {
    std::size_t count = 0;
    for (const program::Lane& lane : model_->program().lanes) {
      count += lane.tasks.size();
    }
    return count;
  }

  double median() const {
    std::vector<double> sorted(times_.begin() + 1, times_.end());
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
  Json report() const {
    std::vector<double> sorted(times_.begin() + 1, times_.end());
    std::ranges::sort(sorted);
    return {{"median_ms", 1e3 * median()},
            {"lowest_ms", 1e3 * sorted.front()},
            {"highest_ms", 1e3 * sorted.back()}};
  }

 private:
  Stack net_;
  std::unique_ptr<TypedModel<Stack>> model_;
  std::array<HostTensor, 2> step_;
  std::vector<double> times_;
};

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(3, std::atoi(argv[1])) : 15;
  Case one(6, {6}, "sequential");
  Case pipelined(6, {3, 3}, "1f1b");
  Case zeroBubble(6, {3, 3}, "zb-h1");
  Case ten(10, {10}, "sequential");
  Case shared(10, {4, 2, 2, 2}, "1f1b");
  // So small that the kernels hardly count: what is left is the engine.
  Case tiny(2, {1, 1}, "1f1b", bench::kTinyStack.width, bench::kTinyStack.batch);
  for (int i = 0; i < 20 * repeats; ++i) {
    tiny.run();
  }
  for (int i = 0; i < repeats; ++i) {
    for (Case* each : {&one, &pipelined, &zeroBubble, &ten, &shared}) {
      each->run();
    }
  }
  Json report = {{"one", one.report()},
                 {"1f1b", pipelined.report()},
                 {"zero_bubble", zeroBubble.report()},
                 {"ten_layers_one_device", ten.report()},
                 {"ten_layers_four_devices", shared.report()}};
  report["speed_1f1b"] = one.median() / pipelined.median();
  report["speed_zero_bubble"] = one.median() / zeroBubble.median();
  report["speed_four_devices_two_cores"] = ten.median() / shared.median();
  report["microseconds_per_task_with_tiny_kernels"] =
      1e6 * tiny.median() / static_cast<double>(tiny.tasks());
  std::cout << report.dump(2) << "\n";
  return 0;
}
