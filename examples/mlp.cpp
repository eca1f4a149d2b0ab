// A small classifier: three interleaved spirals, two hidden layers, dropout, gradients accumulated
// over four micro-batches, and validation on the same weights while it trains.
#include <cmath>

#include <fmt/core.h>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr std::int64_t kPoints = 960;

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

}  // namespace

int main() try {
  HostTensor points(DType::F32, Shape{kPoints, 2});
  HostTensor labels(DType::I64, Shape{kPoints});
  makeSpirals(points, labels);

  Spirals net;
  Options options;
  options.outputMode(OutputMode::All);
  Options inference = options;
  options.training.gradientAccumulation(4);
  auto training = trainingModel(net, options, optim::AdamW(0.01));
  training.setLrSchedule(optim::LrSchedule::cosine(600).warmUp(20));
  auto validation = inferenceModel(net, inference);

  DataLoader loader(options,
                    data::tensorDataset({points, labels}),
                    80,  // times 4 micro-batches
                    {.shuffle = data::Shuffle::Yes, .seed = 1});
  FitOptions fitting;
  fitting.epochs = 200;
  fit(training, loader, fitting);
  const auto [logits, loss] = validation(points, labels);
  fmt::print("loss {:.4f}, accuracy {:.2f}%\n", loss.at(0), accuracy(logits, labels));
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
} catch (...) {
  fmt::print(stderr, "error: an exception of an unknown type\n");
  return 1;
}
