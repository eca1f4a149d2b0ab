// Trains a convolutional network on MNIST (or Fashion-MNIST) on one device and tests it.
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

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
    x = fc2(x);
    return {x, nn::crossEntropy(x, labels)};
  }
};

struct Settings {
  std::string data = "data/mnist";
  std::int64_t batchSize = 40;
  std::int64_t deviceIterations = 10;
  std::int64_t gradientAccumulation = 1;
  std::int64_t testBatchSize = 80;
  std::int64_t epochs = 3;
  double learningRate = 0.001;
  std::int64_t threads = 1;
  std::string log;
  bool summary = false;
};

double test(Network& net, const Settings& settings) {
  const data::ImageSet set = data::loadMnist(settings.data, data::Split::Test);
  const auto iterations = settings.deviceIterations * settings.gradientAccumulation;
  Options options;
  options.deviceIterations(iterations).threads(settings.threads);
  auto model = inferenceModel(net, options);
  const data::MemoryLoader loader({set.images, set.labels}, settings.testBatchSize * iterations);
  double right = 0;
  for (std::int64_t i = 0; i < loader.batches(); ++i) {
    const auto batch = loader.batch(0, i);
    right += accuracy(model(batch[0], batch[1]).first, batch[1]);
  }
  return right / static_cast<double>(loader.batches());
}

void train(const Settings& settings) {
  const data::ImageSet set = data::loadMnist(settings.data, data::Split::Train);
  Network net;
  Options options;
  options.deviceIterations(settings.deviceIterations)
      .threads(settings.threads)
      .outputMode(OutputMode::All);
  options.training.gradientAccumulation(settings.gradientAccumulation);
  auto model = trainingModel(net, options, optim::AdamW(settings.learningRate));
  const data::MemoryLoader loader({set.images, set.labels},
                                  settings.batchSize * model.microBatchesPerStep(),
                                  data::Shuffle::Yes);
  model.compile(loader.batch(0, 0));
  if (settings.summary) {
    fmt::print("{}", model.summary());
  }
  fmt::print("Graph compilation: {:.0f} ms\nTraining...\n", 1e3 * model.compilationTime());
  FitOptions fitting;
  fitting.epochs = settings.epochs;
  fitting.callbacks = {progressBar()};
  if (!settings.log.empty()) {
    fitting.callbacks.push_back(csvLog(settings.log));
  }
  fitting.metrics = [](std::span<const HostTensor> in, std::span<const HostTensor> out) {
    return Metrics{{"Loss", meanOf(out[1])}, {"Accuracy", accuracy(out[0], in[1])}};
  };
  if (fit(model, loader, fitting).interrupted) {
    fmt::print("Interrupted after {} updates.\n", model.updates());
  }
  fmt::print("Testing...\n");
  fmt::print("Accuracy on test set: {:.2f}%\n", test(net, settings));
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Trains a convolutional network on MNIST on one CPU device.");
  app.add_option("--data", settings.data, "Folder with the four IDX files")->capture_default_str();
  app.add_option("--batch-size", settings.batchSize, "Images per micro-batch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--device-iterations", settings.deviceIterations, "Updates per call")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--gradient-accumulation",
                 settings.gradientAccumulation,
                 "Micro-batches per weight update")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--test-batch-size", settings.testBatchSize, "Images per test micro-batch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--epochs", settings.epochs, "Passes over the training set")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--learning-rate", settings.learningRate, "Of AdamW")->capture_default_str();
  app.add_option("--threads", settings.threads, "Threads of the device; results are the same")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--log", settings.log, "Write a CSV line per step to this file");
  app.add_flag("--summary", settings.summary, "Print the model's parameters and memory plan");
  CLI11_PARSE(app, argc, argv);
  try {
    train(settings);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
