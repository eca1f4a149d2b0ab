// Updates of 10 million float32 parameters by each optimizer, as a compiled program, against what
// the machine can copy in the same run. Prints JSON: bytes that must move per second, and the share
// of the copy.
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/support/bandwidth.h"
#include "sluice/api/session.h"
#include "sluice/ops/ops.h"
#include "sluice/optim/adam.h"
#include "sluice/optim/rmsprop.h"
#include "sluice/optim/sgd.h"

namespace {

using namespace sluice;  // NOLINT(google-build-using-namespace): a program of one file

constexpr int kWeights = 10;
const TensorType kWeight{DType::F32, Shape{1000, 1000}};

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

/// `tensors`: how many of a weight's size are read or written.
bench::Timing timeUpdate(const optim::Optimizer& optimizer, int tensors, int threads) {
  const Options options = Options().threads(threads);
  Session session(options, 0);
  const CompiledProgram compiled = session.compile(updateOf(optimizer), 1, {}, options);
  for (const auto& [name, value] : optimizer.scalars()) {
    if (session.contains(name)) {
      session.fill(name, value);
    }
  }
  NoInput feed;
  NoOutput sink;
  const auto run = [&] { session.run(*compiled.program, {.feed = feed, .sink = sink}); };
  return {bench::bestOf(run), static_cast<double>(kWeight.bytes()) * kWeights * tensors};
}

void report(int threads) {
  const bench::Timing copy = bench::timeCopy({DType::F32, Shape{kWeights, 1000, 1000}}, threads);
  const double limit = copy.bytes / copy.seconds;
  fmt::print("  {{\"threads\": {}, \"copy_gb_per_s\": {:.1f}", threads, limit / 1e9);
  const auto print = [&](const char* name, const optim::Optimizer& optimizer, int tensors) {
    const bench::Timing timing = timeUpdate(optimizer, tensors, threads);
    const double rate = timing.bytes / timing.seconds;
    fmt::print(",\n   \"{}\": {{\"ms\": {:.1f}, \"gb_per_s\": {:.1f}, \"of_copy\": {:.2f}}}",
               name,
               timing.seconds * 1e3,
               rate / 1e9,
               rate / limit);
  };
  print("sgd", optim::SGD(1e-3), 3);
  print("sgd_momentum", optim::SGD({.lr = 1e-3, .momentum = 0.9}), 5);
  print("adamw", optim::AdamW(1e-3), 7);
  print("rmsprop_centered", optim::RMSprop({.lr = 1e-3, .centered = true}), 7);
  // The norms need a second pass over the weight and the step.
  print("lamb", optim::LAMB(1e-3), 10);
  fmt::print("}}");
}

}  // namespace

int main() {
  fmt::print("[\n");
  report(1);
  fmt::print(",\n");
  report(2);
  fmt::print("\n]\n");
  return 0;
}
