// A chain of matrix products over two devices whose weights are in remote memory: while one device
// computes a layer, the other one loads the weights of the next. `--sharded-execution` keeps the
// weights on the devices instead.
#include <chrono>
#include <filesystem>
#include <random>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/command_line.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

/// Compiling takes longer by the square: 4 s for this many with training, 150 s for four times
/// that.
constexpr std::int64_t kMostLayers = 1024;

struct Settings {
  std::string device;
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

/// Seconds of every part of the work; a part ends where the next one begins.
class Times {
 public:
  /// Adds the time since the last call.
  double& lap(double& part) {
    const auto now = Clock::now();
    part += std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return part;
  }
  void print() const {
    fmt::print(
        "{:.3g} s in all: {:.3g} building, {:.3g} compiling, {:.3g} inputs, {:.3g} running\n",
        std::chrono::duration<double>(last_ - first_).count(),
        building,
        compiling,
        inputs,
        running);
  }

  double building = 0;
  double compiling = 0;
  double inputs = 0;
  double running = 0;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point first_ = Clock::now();
  Clock::time_point last_ = first_;
};

/// Numbers from 0 on, below `end`.
HostTensor uniform(const TensorType& type, std::mt19937_64& random, double end = 1) {
  HostTensor tensor(type.dtype, type.shape);
  std::uniform_real_distribution<double> numbers(0, end);
  for (std::int64_t i = 0; i < tensor.shape().elements(); ++i) {
    tensor.set(i, numbers(random));
  }
  return tensor;
}

/// Layer i is phase i, on device i mod 2. Returns the loss, which belongs to the last layer. The
/// weights' mean is 1 / size, so that numbers neither grow nor shrink from layer to layer.
TensorId build(Builder& builder, const Settings& settings, std::mt19937_64& random) {
  const std::int64_t d = settings.size;
  TensorId x = builder.addInputTensor({settings.type(), Shape{settings.batchSize, d, d}}, "x");
  for (std::int64_t i = 0; i < settings.layers; ++i) {
    const TensorId weight = builder.addInitializedInputTensor(
        uniform({settings.type(), Shape{d, d}}, random, 2.0 / static_cast<double>(d)),
        fmt::format("W{}", i));
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
  options.device(settings.device);
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

/// Before memory is taken or time is spent.
void requireSizes(const Settings& s) {
  constexpr std::int64_t kElements = std::int64_t{1} << 30;
  cli::requireAtMost("--num-layers",
                     "the weights' elements (num-layers x dsize x dsize)",
                     {s.layers, s.size, s.size},
                     kElements);
  cli::requireAtMost("--batches-per-step",
                     "the elements of a call (batches-per-step x batch-size x dsize x dsize)",
                     {s.batchesPerStep, s.batchSize, s.size, s.size},
                     kElements);
}

/// Of every batch of a call.
void requireFinite(const HostTensor& losses, std::int64_t updates) {
  for (std::int64_t i = 0; i < losses.shape().elements(); ++i) {
    cli::requireFiniteLoss(losses.at(i), updates);
  }
}

/// Returns the signal that ended it early, or 0.
int iterate(GraphSession& session,
            const TensorId& loss,
            const Settings& settings,
            std::mt19937_64& random,
            Times& times) {
  NamedTensors anchors = session.initAnchorArrays();
  const TensorType type{
      settings.type(),
      Shape{settings.batchesPerStep * settings.batchSize, settings.size, settings.size}};
  const StopSignals stop;
  for (std::int64_t i = 0; i < settings.iterations && stop.seen() == 0; ++i) {
    const NamedTensors inputs = {{"x", uniform(type, random)}};
    times.lap(times.inputs);
    const double before = times.running;
    session.run({.inputs = inputs, .outputs = anchors});
    const double seconds = times.lap(times.running) - before;
    if (settings.training) {
      requireFinite(anchors.at(loss), (i + 1) * settings.batchesPerStep);
    }
    fmt::print("{:<8.3g} s per iteration, {:.1f} items/s\n",
               seconds,
               static_cast<double>(settings.batchSize * settings.batchesPerStep) / seconds);
    std::fflush(stdout);
  }
  return stop.seen();
}

int run(const Settings& settings) {
  requireSizes(settings);
  Times times;
  fmt::print("Building {} execution model.\n", settings.sharded ? "sharded" : "phased");
  std::fflush(stdout);
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
  times.lap(times.building);
  fmt::print("Compiling.\n");
  std::fflush(stdout);
  session->prepareDevice();
  times.lap(times.compiling);
  fmt::print("Running.\n");
  const int signal = iterate(*session, loss, settings, random, times);
  times.print();
  if (settings.profile) {
    fmt::print("Report: {}\n",
               (std::filesystem::path(settings.profileDir) /
                (settings.training ? "training" : "inference") / "report.html")
                   .string());
  }
  return cli::exitCodeOf(signal);
}

/// For Option::check: what Options::memoryPerDevice takes.
std::string problemOfBytes(const std::string& text) {
  try {
    Options().memoryPerDevice(text);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

void addOptions(CLI::App& app, Settings& settings) {
  const auto count =
      [&](const char* name, std::int64_t& value, std::int64_t most, const char* text) {
        app.add_option(name, value, text)
            ->transform(cli::wholeNumber<std::int64_t>(1, most))
            ->capture_default_str();
      };
  count("--batch-size", settings.batchSize, 1 << 20, "Matrices per batch");
  count("--dsize", settings.size, 1 << 14, "Rows and columns of all matrices");
  count("--num-layers", settings.layers, kMostLayers, "Matrix products, a phase each");
  count("--batches-per-step", settings.batchesPerStep, 1 << 20, "Batches per call");
  count("--iters", settings.iterations, 1'000'000, "Calls");
  app.add_option("--dtype", settings.dtype, "Type of the numbers")
      ->check(CLI::IsMember({"float16", "float32"}))
      ->capture_default_str();
  app.add_flag("--profile", settings.profile, "Write a trace of one iteration and a report");
  app.add_option("--profile-dir", settings.profileDir, "Folder of trace and report, with --profile")
      ->capture_default_str();
  app.add_flag("--sharded-execution",
               settings.sharded,
               "Keep the weights on the devices, which take turns by layers");
  app.add_flag("--training", settings.training, "Train the weights instead of inference");
  cli::addDeviceOption(app, settings.device);
  app.add_option("--devices-memory", settings.devicesMemory, "Bytes that each device may use")
      ->check(CLI::Validator([](std::string& text) { return problemOfBytes(text); }, ""))
      ->capture_default_str();
  app.add_option("--seed", settings.seed, "Of weights and inputs")
      ->transform(cli::wholeNumber<std::uint64_t>(0))
      ->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app(
      "Runs a chain of matrix products over two devices, phase by phase, with the weights in "
      "remote "
      "memory.\nFor each phase to take as long to compute as to load, aim for 3750 to 7500 FLOP "
      "per byte.",
      "phased_execution");
  app.footer(
      "Example:\n  phased_execution --num-layers 200 --batch-size 1 --batches-per-step 5 "
      "--devices-memory 2MiB");
  addOptions(app, settings);
  return cli::runProgram(app, argc, argv, [&] {
    if (settings.profile && settings.iterations > 1) {
      fmt::print("Profiling: running one iteration instead of {}.\n", settings.iterations);
      settings.iterations = 1;
    }
    return run(settings);
  });
}
