// A small classifier: three interleaved spirals, two hidden layers, dropout, gradients accumulated
// over four micro-batches, and validation on the same weights while it trains.
#include <cmath>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/command_line.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr std::int64_t kPoints = 960;

struct Settings {
  std::string device;
  std::int64_t epochs = 200;
  double learningRate = 0.01;
};

struct Spirals : nn::Module {
  nn::Linear fc1{*this, "fc1", 2, 64};
  nn::Linear fc2{*this, "fc2", 64, 64};
  nn::Linear fc3{*this, "fc3", 64, 3};
  nn::Dropout dropout{*this, "dropout", 0.05};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels) {
    x = nn::relu(fc1(x));
    x = dropout(nn::relu(fc2(x)));
    const nn::Tensor logits = fc3(x);
    return {logits, nn::crossEntropy(logits, labels)};
  }
};

void makeSpirals(HostTensor& points, HostTensor& labels) {
  for (std::int64_t i = 0; i < kPoints; ++i) {
    const std::int64_t arm = i % 3;
    const double radius = static_cast<double>(i) / kPoints;
    const double angle = 4.5 * radius + 2.0944 * static_cast<double>(arm);
    points.set(2 * i, radius * std::cos(angle));
    points.set(2 * i + 1, radius * std::sin(angle));
    labels.set(i, static_cast<double>(arm));
  }
}

int run(const Settings& settings) {
  HostTensor points(DType::F32, Shape{kPoints, 2});
  HostTensor labels(DType::I64, Shape{kPoints});
  makeSpirals(points, labels);

  Spirals net;
  Options options;
  options.device(settings.device);
  options.outputMode(OutputMode::All);
  Options inference = options;
  options.training.gradientAccumulation(4);
  auto training = trainingModel(net, options, optim::AdamW(settings.learningRate));
  training.setLrSchedule(optim::LrSchedule::cosine(600).warmUp(20));
  auto validation = inferenceModel(net, inference);

  DataLoader loader(options,
                    data::tensorDataset({points, labels}),
                    80,  // times 4 micro-batches
                    {.shuffle = data::Shuffle::Yes, .seed = 1});
  FitOptions fitting;
  fitting.epochs = settings.epochs;
  fitting.metrics = [&](std::span<const HostTensor>, std::span<const HostTensor> outputs) {
    cli::requireFiniteLoss(meanOf(outputs[1]), training.updates());
    return Metrics{{"Loss", meanOf(outputs[1])}};
  };
  if (const FitResult result = fit(training, loader, fitting); result.interrupted) {
    fmt::print("Interrupted after {} updates.\n", training.updates());
    return cli::exitCodeOf(result.signal);
  }
  const auto [logits, loss] = validation(points, labels);
  fmt::print("loss {:.4f}, accuracy {:.2f}%\n", loss.at(0), accuracy(logits, labels));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app(
      "Trains a small classifier of three interleaved spirals, with dropout, gradient accumulation "
      "and a learning-rate schedule, and validates it.",
      "mlp");
  app.footer("Example:\n  mlp --epochs 100");
  app.add_option("--epochs", settings.epochs, "Passes over the points")
      ->transform(cli::wholeNumber<std::int64_t>(1, 1'000'000))
      ->capture_default_str();
  cli::addDeviceOption(app, settings.device);
  cli::addProfileOptions(app);
  app.add_option("--learning-rate", settings.learningRate, "Of AdamW, at its highest")
      ->transform(cli::realNumber(0))
      ->capture_default_str();
  return cli::runProgram(app, argc, argv, [&] { return run(settings); });
}
