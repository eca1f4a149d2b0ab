// How even VirtualGraphMode::Auto cuts networks without blocks, and what a step of the cut takes:
// for each network the use of the cut (work over devices times the busiest device's work, of both
// passes), that of the best of all contiguous cuts, the step on one device and on several, both
// estimated and measured. Devices have one thread each; with fewer cores than devices a step cannot
// be quicker than the cores allow. Prints one JSON object.
//
//   bench_auto_cut [devices] [repeats]
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "bench/support/compare.h"
#include "bench/support/shapes.h"
#include "sluice/parallel/leaf.h"
#include "sluice/parallel/work.h"
#include "sluice/sluice.h"
#include "tests/support/cut_networks.h"
#include "tests/support/random_tensor.h"
#include "tests/support/resnet.h"

namespace {

using namespace sluice;
using bench::Json;

constexpr std::int64_t kAccumulation = 8;

struct Settings {
  std::int64_t devices = 4;
  int repeats = 5;
};

std::int64_t sumOf(const std::vector<std::int64_t>& work) {
  std::int64_t sum = 0;
  for (const std::int64_t each : work) {
    sum += each;
  }
  return sum;
}

/// The least work that the largest of so many contiguous parts can have.
std::int64_t leastLargest(const std::vector<std::int64_t>& work, std::int64_t parts) {
  std::int64_t low = std::ranges::max(work);
  std::int64_t high = sumOf(work);
  while (low < high) {
    const std::int64_t bound = (low + high) / 2;
    std::int64_t used = 1;
    std::int64_t part = 0;
    for (const std::int64_t each : work) {
      used += part + each > bound ? 1 : 0;
      part = part + each > bound ? each : part + each;
    }
    (used <= parts ? high : low) = used <= parts ? bound : bound + 1;
  }
  return low;
}

std::vector<HostTensor> stepOf(const std::vector<TensorType>& types) {
  std::vector<HostTensor> inputs;
  for (const TensorType& type : types) {
    std::vector<std::int64_t> dims = type.shape.dims();
    dims[0] *= kAccumulation;
    inputs.push_back(testing::randomTensor(
        inputs.size(), {type.dtype, Shape(std::move(dims))}, 0, isFloat(type.dtype) ? 1 : 10));
  }
  return inputs;
}

/// One network, read from the file that it is exported to, as a Builder's graph has no blocks.
class Case {
 public:
  template <class Net>
  Case(Net& net, std::vector<TensorType> types) : types_(std::move(types)) {
    auto model = inferenceModel(net, Options().showCompilationProgressBar(false));
    model.compile(std::span<const TensorType>(types_));
    bytes_ = model.getModelProto(onnx::Exact::Yes);
  }

  Json report(const Settings& settings) const {
    const double one = measured(Options(), settings.repeats);
    const Options cut = Options()
                            .virtualGraphMode(VirtualGraphMode::Auto)
                            .devicesPerReplica(settings.devices)
                            .enablePipelining(true);
    Json report = estimate(settings.devices);
    report["measured_ms_one_device"] = one;
    report["measured_ms_cut"] = measured(cut, settings.repeats);
    return report;
  }

 private:
  Json estimate(std::int64_t devices) const {
    const onnx::ImportedModel imported = onnx::importModelBytes(std::as_bytes(std::span(bytes_)));
    ir::Graph graph = imported.graph;
    const ir::Value loss = graph.outputs().back().value;
    std::vector<ir::OpId> ops;
    for (const ir::OpId id : graph.order()) {
      if (!parallel::isLeaf(graph.op(id))) {
        ops.push_back(id);
      }
    }
    const std::vector<std::int64_t> work = parallel::workOfOps(graph, ops, loss);
    parallel::annotateStages(graph,
                             {.mode = VirtualGraphMode::Auto,
                              .pipelining = true,
                              .devices = static_cast<std::int32_t>(devices),
                              .training = true,
                              .accumulation = true,
                              .loss = loss});
    std::vector<std::int64_t> byDevice(static_cast<std::size_t>(devices));
    for (std::size_t i = 0; i < ops.size(); ++i) {
      byDevice[static_cast<std::size_t>(graph.op(ops[i]).place.device)] += work[i];
    }
    const auto total = static_cast<double>(sumOf(work));
    const auto count = static_cast<double>(devices);
    const auto largest = static_cast<double>(std::ranges::max(byDevice));
    // A pipeline fills and drains: as many turns of the busiest device as there are others.
    const double turns = static_cast<double>(kAccumulation) + count - 1;
    return {{"ops", ops.size()},
            {"use", total / (count * largest)},
            {"best_use", total / (count * static_cast<double>(leastLargest(work, devices)))},
            {"estimated_ms_one_device", 1e-6 * total * static_cast<double>(kAccumulation)},
            {"estimated_ms_cut", 1e-6 * largest * turns}};
  }

  /// The median step in milliseconds.
  double measured(Options options, int repeats) const {
    options.showCompilationProgressBar(false).threads(1);
    options.training.gradientAccumulation(kAccumulation);
    Builder b(onnx::importModelBytes(std::as_bytes(std::span(bytes_))));
    const TensorId loss = b.graph().outputs().back().name;
    auto model = trainingModel(b, loss, options, optim::SGD(1e-3));
    const std::vector<HostTensor> step = stepOf(types_);
    return 1e-3 * bench::timeCalls([&] { model.run(step); }, 1, repeats).wall;
  }

  std::vector<TensorType> types_;
  std::string bytes_;
};

}  // namespace

int main(int argc, char** argv) {
  const Settings settings{.devices = argc > 1 ? std::max(2, std::atoi(argv[1])) : 4,
                          .repeats = argc > 2 ? std::max(1, std::atoi(argv[2])) : 5};
  const std::vector<TensorType> tokens(2, bench::kCutTokens);
  const std::vector<TensorType> images = {bench::kCutImage, bench::kCutLabels};
  testing::TiedGpt gpt(bench::kCutGpt);
  testing::ResNet resnet(bench::kCutResNet);
  testing::DenseNet dense(bench::kCutDenseNet);
  testing::UNet unet(bench::kCutUNet);
  Json report = {{"devices", settings.devices}};
  report["tied_gpt"] = Case(gpt, tokens).report(settings);
  report["resnet18"] = Case(resnet, images).report(settings);
  report["densenet121"] = Case(dense, images).report(settings);
  report["unet"] = Case(unet, {bench::kCutImage, bench::kCutMask}).report(settings);
  std::cout << report.dump(2) << "\n";
  return 0;
}
