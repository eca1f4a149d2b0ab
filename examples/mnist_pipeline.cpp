// Trains a convolutional network on MNIST, its four blocks spread over up to four devices as a
// pipeline, as shards or as phases, and tests it with the same strategy.
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/command_line.h"
#include "sluice/base/log.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

struct Network : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 1, 10, 5};
  nn::Conv2d conv2{*this, "conv2", 10, 20, 5};
  nn::Linear fc1{*this, "fc1", 320, 256};
  nn::Linear fc2{*this, "fc2", 256, 10};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels) {
    {
      const nn::Block block("B1");
      x = nn::relu(nn::maxPool2d(conv1(x), 2));
    }
    {
      const nn::Block block("B2");
      x = nn::relu(nn::maxPool2d(conv2(x), 2));
    }
    {
      const nn::Block block("B3");
      x = nn::relu(fc1(nn::flatten(x, 1)));
    }
    const nn::Block block("B4");
    x = nn::cast(fc2(x), DType::F32);  // sums of exponentials want the range
    return {x, nn::crossEntropy(x, labels)};
  }
};

struct Settings {
  std::string device;
  std::int64_t batchSize = 40;
  std::int64_t deviceIterations = 10;
  std::int64_t gradientAccumulation = 10;
  std::int64_t testBatchSize = 8;
  std::int64_t epochs = 3;
  double learningRate = 0.001;
  std::string precision = "float32";
  double lossScaling = 0;  // 0: as the precision wants it
  bool stochasticRounding = false;
  bool profile = false;
  std::string profileDir = "./profile";
  std::string strategy = "pipelined";
  std::string schedule = "popart";
  std::int64_t devices = 4;
  std::int64_t threads = 1;
  std::uint64_t seed = 0;
  std::string dataset = "mnist";
  std::string data;  // empty: data/<dataset>
  std::string log;
  std::string checkpointDir;  // empty: none
  std::int64_t checkpointEvery = 10;
  bool resume = false;
  bool offloadOptimizer = false;
  bool debug = false;

  bool pipelined() const { return strategy == "pipelined"; }
  bool sharded() const { return strategy == "sharded"; }
  std::string folder() const { return data.empty() ? "data/" + dataset : data; }
  std::int64_t microBatchesPerCall() const { return deviceIterations * gradientAccumulation; }
  DType dtype() const {
    return precision == "float16" ? DType::F16 : precision == "bfloat16" ? DType::BF16 : DType::F32;
  }
  /// Only float16 loses small gradients.
  double scaling() const {
    return lossScaling > 0 ? lossScaling : dtype() == DType::F16 ? 1024 : 1;
  }
};

/// The blocks of each device. Of the time B2 takes one half, B1 a third, B4 next to nothing; so two
/// devices have equal work if B2 has one for itself (docs/profiling.md).
std::vector<Stage> stagesOn(std::int64_t devices) {
  switch (devices) {
    case 1:
      return {Stage("B1", "B2", "B3", "B4").device(0)};
    case 2:
      return {Stage("B1").device(0), Stage("B2").device(1), Stage("B3", "B4").device(0)};
    case 3:
      return {Stage("B1").device(0), Stage("B2").device(1), Stage("B3", "B4").device(2)};
    default:
      return {Stage("B1").device(0),
              Stage("B2").device(1),
              Stage("B3").device(2),
              Stage("B4").device(3)};
  }
}

/// A phase per block; parallel phases take turns on two devices.
Strategy phases(const Settings& settings) {
  const std::vector<Phase> blocks = {"B1", "B2", "B3", "B4"};
  return settings.strategy == "serial-phased" ? Strategy(SerialPhasedExecution(blocks))
                                              : Strategy(ParallelPhasedExecution(blocks));
}

Options trainingOptions(const Settings& settings) {
  Options options;
  options.device(settings.device);
  options.deviceIterations(settings.deviceIterations)
      .outputMode(OutputMode::All)
      .threads(settings.threads)
      .randomSeed(settings.seed)
      .enableProfiling(settings.profile ? settings.profileDir : "");
  if (settings.pipelined()) {
    options.setExecutionStrategy(
        PipelinedExecution(stagesOn(settings.devices)).schedule(settings.schedule));
  } else if (settings.sharded()) {
    options.setExecutionStrategy(ShardedExecution(stagesOn(settings.devices)));
  } else {
    options.setExecutionStrategy(phases(settings));
  }
  options.training.gradientAccumulation(settings.sharded() ? 1 : settings.gradientAccumulation);
  options.precision.enableStochasticRounding(settings.stochasticRounding);
  if (settings.offloadOptimizer) {
    const TensorLocationSettings onChip = TensorLocationSettings().useOnChipStorage(true);
    options.tensorLocations.setActivationLocation(onChip)
        .setWeightLocation(onChip)
        .setAccumulatorLocation(onChip)
        .setOptimizerLocation(TensorLocationSettings().useOnChipStorage(false));
  }
  return options;
}

/// In the type of the network.
data::DatasetPtr images(data::Split split, const Settings& settings) {
  data::DatasetPtr dataset = data::mnistDataset(settings.folder(), split);
  if (settings.dtype() == DType::F32) {
    return dataset;
  }
  return data::map(dataset, [dtype = settings.dtype()](data::Sample sample) {
    sample[0] = cast(sample[0], dtype);
    return sample;
  });
}

DataLoaderOptions loading(const Settings& settings) {
  return {.shuffle = data::Shuffle::Yes, .seed = settings.seed, .mode = DataLoaderMode::Async};
}

void requireCalls(const DataLoader& loader, const Settings& settings) {
  if (loader.length() == 0) {
    raise<InvalidArgument>(
        "a call takes {} images (batch size x device iterations x gradient accumulation), but '{}' "
        "has only {}",
        loader.combinedBatchSize(),
        settings.folder(),
        loader.samples());
  }
}

double test(Network& net, const Settings& settings) {
  Options options = trainingOptions(settings);
  options.deviceIterations(settings.microBatchesPerCall());
  options.training.gradientAccumulation(1);
  auto model = inferenceModel(net, options);
  // Every image counts, also those that do not fill a call.
  DataLoader loader(options,
                    images(data::Split::Test, settings),
                    settings.testBatchSize,
                    {.mode = DataLoaderMode::Async, .lastBatch = LastBatch::Exact});
  double right = 0;
  for (const Batch& batch : loader) {
    const HostTensor& labels = batch.tensors[1];
    right += accuracy(model.run(batch)[0], labels) * static_cast<double>(labels.shape()[0]);
  }
  return right / static_cast<double>(loader.samples());
}

/// Keeps what the last line says.
class Result : public Callback {
 public:
  void onStep(const Progress& p) override {
    loss_ = p.metrics[0].second;
    cli::requireFiniteLoss(loss_, p.updates);
  }
  /// The rest of an epoch that another run began says nothing about the time of a whole one.
  void onEpochEnd(const Progress& p) override {
    if (p.firstStep == 0) {
      seconds_ += p.seconds;
      ++epochs_;
    }
    trained_ = true;
  }
  void onEpochCut(const Progress& p) override { trained_ = trained_ || p.step > p.firstStep; }
  void print(const Settings& settings) const {
    fmt::print(
        "{} device{}, {}",
        settings.devices,
        settings.devices == 1 ? "" : "s",
        settings.pipelined() ? "pipelined by schedule " + settings.schedule : settings.strategy);
    if (epochs_ > 0) {
      fmt::print(": {:.2f} s per epoch", seconds_ / static_cast<double>(epochs_));
    }
    if (trained_) {
      fmt::print("{} final loss {:.9g}", epochs_ > 0 ? "," : ":", loss_);
    }
    fmt::print("\n");
  }

 private:
  double loss_ = 0;
  double seconds_ = 0;
  std::int64_t epochs_ = 0;  // whole ones
  bool trained_ = false;
};

/// Lets the run save checkpoints, and begin where the newest one was made.
void addCheckpoints(Model& model,
                    DataLoader& loader,
                    const Settings& settings,
                    FitOptions& fitting) {
  if (settings.checkpointDir.empty()) {
    return;
  }
  const CheckpointFolder checkpoints(settings.checkpointDir);
  fitting.callbacks.push_back(checkpointing(model, loader, checkpoints, settings.checkpointEvery));
  if (!settings.resume) {
    if (!checkpoints.files().empty()) {
      fmt::print(
          "A new run; checkpoints of others in {} stay, and --resume goes on with the newest\n",
          settings.checkpointDir);
    }
    return;
  }
  if (const auto resumed = checkpoints.resume(model, loader)) {
    fitting.firstEpoch = loader.epoch();
    fmt::print("Resumed after {} updates of run {} from {}\n",
               resumed->updates,
               resumed->run.empty() ? "(unnamed)" : resumed->run,
               resumed->path.string());
  }
}

/// Products that the library would only refuse after the data were read.
void requireSizes(const Settings& settings) {
  constexpr std::int64_t kImages = std::int64_t{1} << 31;
  cli::requireAtMost(
      "--batch-size",
      "the images of a call (batch-size x device-iterations x gradient-accumulation)",
      {settings.batchSize, settings.deviceIterations, settings.gradientAccumulation},
      kImages);
  cli::requireAtMost(
      "--test-batch-size",
      "the images of a call (test-batch-size x device-iterations x gradient-accumulation)",
      {settings.testBatchSize, settings.deviceIterations, settings.gradientAccumulation},
      kImages);
}

int run(const Settings& settings) {
  requireSizes(settings);
  if (settings.profile) {
    fmt::print("Profiling is enabled.\n");
  }
  Network net;
  net.to(settings.dtype());
  const Options options = trainingOptions(settings);
  const optim::AdamW optimizer({.lr = settings.learningRate, .lossScaling = settings.scaling()});
  auto model = trainingModel(net, options, optimizer);
  const data::DatasetPtr dataset = images(data::Split::Train, settings);
  // A shard does not accumulate: all images of an update are one micro-batch.
  DataLoader loader(options,
                    dataset,
                    settings.batchSize * (settings.sharded() ? settings.gradientAccumulation : 1),
                    loading(settings));
  requireCalls(loader, settings);
  model.compile(data::makeBatch(dataset->types(), loader.combinedBatchSize()));
  const auto result = std::make_shared<Result>();
  FitOptions fitting;
  fitting.epochs = settings.epochs;
  fitting.callbacks = {progressBar(), result};
  if (!settings.log.empty()) {
    fitting.callbacks.push_back(csvLog(settings.log));
  }
  fitting.metrics = [](std::span<const HostTensor> in, std::span<const HostTensor> out) {
    return Metrics{{"Loss", meanOf(out[1])}, {"Accuracy", accuracy(out[0], in[1])}};
  };
  addCheckpoints(model, loader, settings, fitting);
  fmt::print("Training...\n");
  if (const FitResult fitted = fit(model, loader, fitting); fitted.interrupted) {
    fmt::print("Interrupted after {} updates{}.\n",
               model.updates(),
               settings.checkpointDir.empty() ? "" : "; go on with --resume");
    result->print(settings);
    return cli::exitCodeOf(fitted.signal);
  }
  fmt::print("Testing...\n");
  fmt::print("Accuracy on test set: {:.2f}%\n", test(net, settings));
  if (settings.profile) {
    fmt::print("Reports: {0}/training/report.html, {0}/inference/report.html\n",
               settings.profileDir);
  }
  result->print(settings);
  return 0;
}

constexpr const char* kExamples = R"(Examples:
  mnist_pipeline --learning-rate 0.002 --debug --epochs 5
  mnist_pipeline --schedule zero-bubble --devices 3
  mnist_pipeline --profile --profile-dir pipeline_profile
  mnist_pipeline --strategy sharded --profile --profile-dir sharding_profile
  mnist_pipeline --strategy serial-phased
  mnist_pipeline --offload-optimiser
  mnist_pipeline --precision float16 --stochastic-rounding
  mnist_pipeline --checkpoint-dir checkpoints --resume

A call takes batch-size x device-iterations x gradient-accumulation images. A weight update is made
from gradient-accumulation micro-batches of batch-size images; with --strategy sharded the same
images are one micro-batch. Schedules, phases, what is kept off the devices, and numbers of devices
and threads change no bit of the result.)";

std::vector<std::string> scheduleNames() {
  std::vector<std::string> names;
  for (const parallel::PipelineKind kind : schedule::allPipelineKinds()) {
    names.emplace_back(schedule::name(kind));
  }
  return names;
}

void addTrainingOptions(CLI::App& app, Settings& s) {
  const auto count = [&](const char* name, std::int64_t& value, const char* text) {
    app.add_option(name, value, text)
        ->transform(cli::wholeNumber<std::int64_t>(1, 1'000'000'000))
        ->capture_default_str();
  };
  count("--batch-size", s.batchSize, "Images per micro-batch");
  count("--device-iterations", s.deviceIterations, "Weight updates per call");
  count("--gradient-accumulation", s.gradientAccumulation, "Micro-batches per weight update");
  count("--test-batch-size", s.testBatchSize, "Images per micro-batch of the test");
  app.add_option("--epochs", s.epochs, "Passes over the training set")
      ->transform(cli::wholeNumber<std::int64_t>(0, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--learning-rate", s.learningRate, "Of AdamW")
      ->transform(cli::realNumber(0))
      ->capture_default_str();
  app.add_option("--precision", s.precision, "Type of weights, activations and images")
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--loss-scaling",
                 s.lossScaling,
                 "Factor on the gradients until they are applied  [1024 for float16, else 1]")
      ->transform(cli::realNumber(0, cli::Bound::Excluded));
  app.add_flag("--stochastic-rounding",
               s.stochasticRounding,
               "Round new weights of 16 bits up or down at random");
  app.add_option("--seed", s.seed, "Of initial weights and shuffling")
      ->transform(cli::wholeNumber<std::uint64_t>(0))
      ->capture_default_str();
  app.add_option("--dataset", s.dataset, "Which images")
      ->check(CLI::IsMember({"mnist", "fashion"}))
      ->capture_default_str();
  app.add_option("--data", s.data, "Folder with the four IDX files  [data/DATASET]");
}

void addRunOptions(CLI::App& app, Settings& s) {
  app.add_option("--strategy", s.strategy, "How devices take turns")
      ->check(CLI::IsMember({"pipelined", "sharded", "serial-phased", "parallel-phased"}))
      ->capture_default_str();
  app.add_option("--schedule", s.schedule, "Order of a pipeline")
      ->check(CLI::IsMember(scheduleNames()))
      ->capture_default_str();
  app.add_option("--devices", s.devices, "Devices that the four blocks are spread over")
      ->transform(cli::wholeNumber<std::int64_t>(1, 4))
      ->capture_default_str();
  cli::addDeviceOption(app, s.device);
  app.add_option("--threads", s.threads, "Threads of each device")
      ->transform(cli::wholeNumber<std::int64_t>(1, 1024))
      ->capture_default_str();
  app.add_flag("--profile", s.profile, "Trace the first calls and write reports about them");
  app.add_option("--profile-dir", s.profileDir, "Where traces and reports go")
      ->capture_default_str();
  app.add_option("--log", s.log, "Write a CSV line per call to this file");
  app.add_flag("--offload-optimiser",
               s.offloadOptimizer,
               "Keep only the state of the optimizer off the devices");
  app.add_option("--checkpoint-dir", s.checkpointDir, "Save the newest three checkpoints here");
  app.add_option("--checkpoint-every", s.checkpointEvery, "Calls between checkpoints")
      ->transform(cli::wholeNumber<std::int64_t>(1))
      ->capture_default_str()
      ->needs("--checkpoint-dir");
  app.add_flag("--resume", s.resume, "Go on from the newest checkpoint, if there is one")
      ->needs("--checkpoint-dir");
  app.add_flag("--debug", s.debug, "Print debug logging");
}

/// What one option says of another.
void settleOptions(const CLI::App& app, Settings& settings) {
  if (!settings.pipelined() && app.count("--schedule") > 0) {
    throw CLI::ValidationError("--schedule", "only --strategy pipelined has schedules");
  }
  if (settings.pipelined() || settings.sharded()) {
    return;
  }
  const std::int64_t needed = settings.strategy == "serial-phased" ? 1 : 2;
  if (app.count("--devices") > 0 && settings.devices != needed) {
    throw CLI::ValidationError("--devices",
                               fmt::format("--strategy {} runs on {} device{}, got {}",
                                           settings.strategy,
                                           needed,
                                           needed == 1 ? "" : "s",
                                           settings.devices));
  }
  settings.devices = needed;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Trains a convolutional network on MNIST over several devices and tests it.",
               "mnist_pipeline");
  app.footer(kExamples);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  addTrainingOptions(app, settings);
  addRunOptions(app, settings);
  return cli::runProgram(app, argc, argv, [&] {
    settleOptions(app, settings);
    if (settings.debug) {
      log::setLevels("debug");
    }
    return run(settings);
  });
}
