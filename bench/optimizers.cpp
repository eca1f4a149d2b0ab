// Updates of 10 million float32 parameters by each optimizer, as a compiled program, against what
// the machine can copy and against PyTorch's AdamW on one thread. Copies and updates take turns, so
// that both see the same machine; shares are medians over the turns, with quartiles, by the wall
// clock and by the CPU time of the process, which others on the machine disturb less. Bytes are
// those that must move: a tensor that is updated counts twice, as both sides of the copy do.
//
//   bench_optimizers           JSON
//   bench_optimizers --adamw   one side of the comparison with PyTorch
#include "sluice/optim/optimizers.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/compare.h"
#include "sluice/api/session.h"
#include "sluice/base/workers.h"
#include "sluice/compile/compile.h"
#include "sluice/ops/ops.h"

namespace {

using namespace sluice;  // NOLINT(google-build-using-namespace): a program of one file

constexpr int kWeights = 10;
const TensorType kWeight{DType::F32, Shape{1000, 1000}};
const TensorType kAllWeights{DType::F32, Shape{kWeights, 1000, 1000}};

/// An update has no inputs, and outputs that nobody looks at.
struct NoInput : runtime::HostFeed {
  const void* take(std::int32_t /*input*/, std::int64_t /*microBatch*/) override { return nullptr; }
  bool mayBlock() const override { return false; }
};
struct NoOutput : runtime::HostSink {
  void put(std::int32_t /*output*/, std::int64_t /*microBatch*/, const void* /*data*/) override {}
  bool mayBlock() const override { return false; }
};

/// Gradients are variables here, so that the program is the update alone.
ir::Graph updateOf(const optim::Optimizer& optimizer) {
  ir::Graph graph("update");
  ir::GraphBuilder b(graph);
  // A program has a micro-batch; its work is one number.
  graph.addVariable({.name = "one",
                     .type = {DType::F32, Shape{}},
                     .role = ir::VariableRole::Buffer,
                     .trainable = false,
                     .initializer = ir::Initializer::constant(1)});
  graph.addOutput("minus_one", ops::neg(b, b.variable("one")));
  b.place.pass = ir::Pass::Update;
  std::vector<optim::Gradient> gradients;
  for (int i = 0; i < kWeights; ++i) {
    const std::string weight = fmt::format("w{}", i);
    const std::string gradient = fmt::format("g{}", i);
    graph.addVariable(
        {.name = weight, .type = kWeight, .initializer = ir::Initializer::constant(1)});
    graph.addVariable({.name = gradient,
                       .type = kWeight,
                       .role = ir::VariableRole::Buffer,
                       .trainable = false,
                       .initializer = ir::Initializer::constant(0.5)});
    gradients.push_back({weight, b.variable(gradient)});
  }
  optim::UpdateContext context(b, std::move(gradients));
  optimizer.expand(context);
  return graph;
}

/// The update alone, compiled.
class Update {
 public:
  Update(const optim::Optimizer& optimizer, int threads)
      : options_(Options().threads(threads)),
        session_(options_, 0),
        compiled_(session_.compile({.graph = updateOf(optimizer)}, options_)) {
    for (const auto& [name, value] : optimizer.scalars()) {
      if (session_.contains(name)) {
        session_.fill(name, value);
      }
    }
  }
  void operator()() { session_.run(compiled_.program, {.feed = feed_, .sink = sink_}); }

 private:
  Options options_;
  Session session_;
  CompiledProgram compiled_;
  NoInput feed_;
  NoOutput sink_;
};

/// As many bytes as the weights have, by tiles of memcpy.
class Copy {
 public:
  explicit Copy(int threads)
      : workers_(threads), from_(HostTensor::full(kAllWeights, 1.0)), to_(kAllWeights) {}
  void operator()() {
    constexpr std::size_t kTile = 62500;
    workers_.parallelFor(static_cast<std::int64_t>(from_.byteCount() / kTile), [&](std::int64_t i) {
      const std::size_t at = static_cast<std::size_t>(i) * kTile;
      std::memcpy(to_.bytes() + at, from_.bytes() + at, kTile);
    });
  }

 private:
  Workers workers_;
  HostTensor from_;
  HostTensor to_;
};

/// Shares of the copy's bytes per second over turns.
bench::Json sharesOf(std::vector<double> shares) {
  std::ranges::sort(shares);
  const std::size_t n = shares.size();
  return {{"median", shares[n / 2]}, {"quartiles", {shares[n / 4], shares[3 * n / 4]}}};
}

/// `tensors`: how many of a weight's size are read or written.
bench::Json measure(const optim::Optimizer& optimizer, int tensors, int threads) {
  constexpr int kTurns = 21;
  Copy copy(threads);
  Update update(optimizer, threads);
  std::vector<double> wall;
  std::vector<double> cpu;
  std::vector<double> milliseconds;
  std::vector<double> cpuMilliseconds;
  for (int i = 0; i <= kTurns; ++i) {
    const bench::CallTimes copied = bench::timeCalls([&] { copy(); }, 0, 1);
    const bench::CallTimes updated = bench::timeCalls([&] { update(); }, 0, 1);
    if (i > 0) {  // the first warms up
      wall.push_back(tensors / updated.wall / (2 / copied.wall));
      cpu.push_back(tensors / updated.cpu / (2 / copied.cpu));
      milliseconds.push_back(updated.wall / 1e3);
      cpuMilliseconds.push_back(updated.cpu / 1e3);
    }
  }
  return {{"ms", bench::median(milliseconds)},
          {"cpu_ms", bench::median(cpuMilliseconds)},
          {"of_copy", sharesOf(wall)},
          {"of_copy_cpu", sharesOf(cpu)}};
}

bench::Json report(int threads) {
  return {{"threads", threads},
          {"sgd", measure(optim::SGD(1e-3), 3, threads)},
          {"sgd_momentum", measure(optim::SGD({.lr = 1e-3, .momentum = 0.9}), 5, threads)},
          {"adamw", measure(optim::AdamW(1e-3), 7, threads)},
          {"rmsprop_centered", measure(optim::RMSprop({.lr = 1e-3, .centered = true}), 7, threads)},
          // The norms need a second pass over the weight and the step.
          {"lamb", measure(optim::LAMB(1e-3), 10, threads)}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--adamw") {
    Update update(optim::AdamW(1e-3), 1);
    std::cout << bench::perUpdate(bench::timeCalls([&] { update(); }, 5, 30), 1) << "\n";
    return 0;
  }
  bench::Json results = {{"copy", {report(1), report(2)}}};
  results["adamw"] = bench::compare(bench::self({"--adamw"}),
                                    {bench::torch("optimizers_torch.py", {"foreach"}),
                                     bench::torch("optimizers_torch.py", {"single"})},
                                    5);
  std::cout << results.dump(2) << "\n";
  return 0;
}
