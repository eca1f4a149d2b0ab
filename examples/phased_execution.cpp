// A chain of matrix products over two devices whose weights are in remote memory: while one device
// computes a layer, the other one loads the weights of the next. `--sharded-execution` keeps the
// weights on the devices instead.
#include <chrono>
#include <random>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

struct Settings {
  std::int64_t batchSize = 32;
  std::int64_t size = 250;
  std::int64_t layers = 3;
  std::int64_t batchesPerStep = 100;
  std::int64_t iterations = 5;
  std::string dtype = "float16";
  bool profile = false;
  std::string profileDir = "./";
  bool sharded = false;
  bool training = false;
  std::string devicesMemory = "64MiB";
  std::uint64_t seed = 0;

  DType type() const { return dtype == "float16" ? DType::F16 : DType::F32; }
};

/// Numbers in [0, 1).
HostTensor uniform(const TensorType& type, std::mt19937_64& random) {
  HostTensor tensor(type.dtype, type.shape);
  std::uniform_real_distribution<double> numbers(0, 1);
  for (std::int64_t i = 0; i < tensor.shape().elements(); ++i) {
    tensor.set(i, numbers(random));
  }
  return tensor;
}

/// Layer i is phase i, on device i mod 2. Returns the loss, which belongs to the last layer.
TensorId build(Builder& builder, const Settings& settings, std::mt19937_64& random) {
  const std::int64_t d = settings.size;
  TensorId x = builder.addInputTensor({settings.type(), Shape{settings.batchSize, d, d}}, "x");
  for (std::int64_t i = 0; i < settings.layers; ++i) {
    const TensorId weight = builder.addInitializedInputTensor(
        uniform({settings.type(), Shape{d, d}}, random), fmt::format("W{}", i));
    const auto device = builder.virtualGraph(i % 2);
    const auto phase = builder.executionPhase(i);
    x = builder.aiOnnx().matmul(x, weight);
    if (i + 1 == settings.layers) {
      x = builder.aiGraphcore().l1loss(x, 0.1);
    }
  }
  if (!settings.training) {
    builder.addOutputTensor(x);
  }
  return x;
}

Options optionsFor(const Settings& settings) {
  Options options;
  options.memoryPerDevice(settings.devicesMemory)
      .enableProfiling(settings.profile ? settings.profileDir : "");
  if (settings.sharded) {
    options.virtualGraphMode(VirtualGraphMode::Manual);
    return options;
  }
  options.virtualGraphMode(VirtualGraphMode::ExecutionPhases).executionPhases(settings.layers, 2);
  options.tensorLocations
      .setWeightLocation(
          TensorLocationSettings().useOnChipStorage(false).useIOTilesToLoad(true).useIOTilesToStore(
              true))
      .numIOTiles(128);
  return options;
}

std::unique_ptr<GraphSession> sessionFor(Builder& builder,
                                         const TensorId& loss,
                                         const Settings& settings) {
  const DataFlow flow(settings.batchesPerStep, {{loss, AnchorReturnType("All")}});
  if (settings.training) {
    return std::make_unique<TrainingSession>(
        builder, flow, loss, optim::SGD(1e-3), optionsFor(settings));
  }
  return std::make_unique<InferenceSession>(builder, flow, optionsFor(settings), false);
}

void run(const Settings& settings) {
  fmt::print("Building {} execution model.\n", settings.sharded ? "sharded" : "phased");
  std::mt19937_64 random(settings.seed);
  Builder builder("phased");
  const TensorId loss = build(builder, settings, random);
  if (!settings.sharded) {
    const std::int64_t flops =
        2 * settings.batchSize * settings.size * settings.size * settings.size;
    const auto bytes =
        static_cast<std::int64_t>(byteSize(settings.type())) * settings.size * settings.size;
    fmt::print("Each phase computes {} FLOP per byte of weights that it loads.\n", flops / bytes);
  }
  fmt::print("Acquiring device.\n");
  const std::unique_ptr<GraphSession> session = sessionFor(builder, loss, settings);
  fmt::print("Compiling.\n");
  session->prepareDevice();
  fmt::print("Running.\n");
  NamedTensors anchors = session->initAnchorArrays();
  const TensorType type{
      settings.type(),
      Shape{settings.batchesPerStep * settings.batchSize, settings.size, settings.size}};
  for (std::int64_t i = 0; i < settings.iterations; ++i) {
    const NamedTensors inputs = {{"x", uniform(type, random)}};
    const auto begin = std::chrono::steady_clock::now();
    session->run({.inputs = inputs, .outputs = anchors});
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    fmt::print("{:<8.3g} s per iteration, {:.1f} items/s\n",
               time.count(),
               static_cast<double>(settings.batchSize * settings.batchesPerStep) / time.count());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app(
      "Runs a chain of matrix products over two devices, phase by phase, with the weights in "
      "remote "
      "memory.\nFor each phase to take as long to compute as to load, aim for 3750 to 7500 FLOP "
      "per byte.");
  const auto positive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 32);
  app.add_option("--batch-size", settings.batchSize, "matrices per batch")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--dsize", settings.size, "rows and columns of all matrices")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--num-layers", settings.layers, "matrix products, a phase each")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--batches-per-step", settings.batchesPerStep, "batches per call")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--iters", settings.iterations, "calls")->check(positive)->capture_default_str();
  app.add_option("--dtype", settings.dtype, "type of the numbers")
      ->check(CLI::IsMember({"float16", "float32"}))
      ->capture_default_str();
  app.add_flag("--profile", settings.profile, "write a trace of one iteration");
  app.add_option("--profile-dir", settings.profileDir, "folder of the trace, with --profile")
      ->capture_default_str();
  app.add_flag("--sharded-execution",
               settings.sharded,
               "keep the weights on the devices, which take turns by layers");
  app.add_flag("--training", settings.training, "train the weights instead of inference");
  app.add_option("--devices-memory", settings.devicesMemory, "bytes that each device may use")
      ->capture_default_str();
  app.add_option("--seed", settings.seed, "of weights and inputs")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (settings.profile && settings.iterations > 1) {
    fmt::print("Profiling: running one iteration instead of {}.\n", settings.iterations);
    settings.iterations = 1;
  }
  try {
    run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  } catch (...) {
    fmt::print(stderr, "error: an exception of an unknown type\n");
    return 1;
  }
  return 0;
}
