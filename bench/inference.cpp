// Where the time of inference goes: an ONNX file on one CPU device, the median call beside its
// kernels timed one by one in the same order. What a call takes beyond their sum is what lies
// between kernels: feeding inputs, waking threads, tasks. Runs with several numbers of threads take
// turns. Prints tables.
//
//   bench_inference model.onnx [threads,... [calls]]
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/support/compare.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/session.h"
#include "sluice/onnx/files.h"
#include "sluice/runtime/kernel_times.h"
#include "tests/support/random_tensor.h"

namespace {

using namespace sluice;

constexpr int kTurns = 5;

std::vector<int> numbers(const std::string& list) {
  std::vector<int> all;
  std::istringstream text(list);
  for (std::string one; std::getline(text, one, ',');) {
    all.push_back(std::max(1, std::atoi(one.c_str())));
  }
  return all;
}

std::vector<HostTensor> inputsOf(const ir::Graph& graph) {
  std::vector<HostTensor> inputs;
  for (const ir::OpId id : graph.inputs()) {
    inputs.push_back(testing::randomTensor(inputs.size() + 1, graph.op(id).outputs[0], -1, 1));
  }
  return inputs;
}

std::vector<runtime::KernelTime> kernelTimes(const program::Program& program, int threads) {
  const auto device = devices::cpu::makeCpuDevice({.threads = threads});
  const std::array<device::Device*, 1> all = {device.get()};
  return runtime::measureKernels(program, all, 25);
}

struct Kernel {
  std::string text;
  std::vector<double> us;  ///< by turn
};

struct Run {
  int threads;
  std::unique_ptr<Builder> builder;  ///< models of one builder share their devices
  std::unique_ptr<Model> model = nullptr;
  std::vector<double> calls = {};  ///< microseconds, by turn
  std::vector<Kernel> kernels = {};
};

/// Weights are packed once, so these kernels are not part of a call.
bool isPacking(const program::Program& program, const device::KernelCall* call) {
  for (const program::Segment& segment : program.segments) {
    const bool owns =
        !segment.calls.empty() && call >= &segment.calls.front() && call <= &segment.calls.back();
    if (owns) {
      return program::name(segment).starts_with("pack");
    }
  }
  return false;
}

std::string described(const device::KernelCall& call) {
  std::string text = fmt::format("{} {} [{}]", call.def->name, call.name, call.choice.config);
  for (std::size_t i = 0; i < std::min<std::size_t>(2, call.inputTypes.size()); ++i) {
    text += " " + call.inputTypes[i].shape.str();
  }
  return text + " -> " + call.outputTypes[0].shape.str();
}

void addKernels(Run& run) {
  const program::Program& program = run.model->program();
  std::size_t at = 0;
  for (const runtime::KernelTime& time : kernelTimes(program, run.threads)) {
    if (isPacking(program, time.call)) {
      continue;
    }
    if (at == run.kernels.size()) {
      run.kernels.push_back({described(*time.call), {}});
    }
    run.kernels[at++].us.push_back(1e6 * time.seconds);
  }
}

void print(const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    double sum = 0;
    for (const Kernel& kernel : run.kernels) {
      sum += bench::median(kernel.us);
    }
    fmt::print("{} threads: call {:.0f} us, kernels alone {:.0f} us\n",
               run.threads,
               bench::median(run.calls),
               sum);
  }
  for (std::size_t k = 0; k < runs[0].kernels.size(); ++k) {
    for (const Run& run : runs) {
      fmt::print("{:8.1f}", bench::median(run.kernels[k].us));
    }
    fmt::print("  {}\n", runs[0].kernels[k].text);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "bench_inference model.onnx [threads,... [calls]]\n");
    return 2;
  }
  std::vector<Run> runs;
  std::vector<HostTensor> inputs;
  for (const int threads : numbers(argc > 2 ? argv[2] : "1,2")) {
    Run& run =
        runs.emplace_back(Run{threads, std::make_unique<Builder>(onnx::importModel(argv[1], {}))});
    inputs = inputsOf(run.builder->graph());
    Options options;
    options.threads(threads).showCompilationProgressBar(false);
    run.model = std::make_unique<Model>(inferenceModel(*run.builder, options));
    run.model->compile(std::span<const HostTensor>(inputs));
  }
  const int calls = argc > 3 ? std::max(1, std::atoi(argv[3])) : 100;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Run& run : runs) {
      run.calls.push_back(
          bench::timeCalls([&] { run.model->run(inputs); }, 3, std::max(1, calls / kTurns)).wall);
      addKernels(run);
    }
  }
  print(runs);
  return 0;
}
