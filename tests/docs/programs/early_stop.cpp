// validation and early stop, best weights kept, with fit
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

struct Points : data::Dataset {
  std::int64_t first, count;
  Points(std::int64_t first, std::int64_t count) : first(first), count(count) {}
  std::int64_t size() const override { return count; }
  data::Sample get(std::int64_t index) const override {
    const std::int64_t i = first + index;
    const double a = static_cast<double>(i * 37 % 101) / 50 - 1;
    const double b = static_cast<double>(i * 53 % 103) / 50 - 1;
    return {HostTensor::of<float>(Shape{2}, {static_cast<float>(a), static_cast<float>(b)}),
            HostTensor::scalar<std::int64_t>(a * b > 0 ? 1 : 0)};
  }
};

struct Net : nn::Module {
  nn::Linear a{*this, "a", 2, 32};
  nn::Linear b{*this, "b", 32, 2};
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels) {
    x = b(nn::tanh(a(x)));
    return {x, nn::crossEntropy(x, labels)};
  }
};

struct EarlyStop : Callback {
  double best = 1e9;
  int bad = 0;
  void onEpochEnd(const Progress& at) override {
    for (const auto& [name, value] : at.metrics) {
      if (name == "Validation Loss") {
        if (value < best - 1e-3) {
          best = value;
          bad = 0;
        } else {
          ++bad;
        }
      }
    }
  }
};

int main() try {
  Net net;
  Options options;
  options.outputMode(OutputMode::All);
  auto model = trainingModel(net, options, optim::AdamW(0.02));
  auto inference = inferenceModel(net, Options());
  DataLoader train(
      options, std::make_shared<Points>(0, 512), 64, {.shuffle = data::Shuffle::Yes, .seed = 1});
  DataLoader test(Options(), std::make_shared<Points>(512, 128), 64);
  const auto validate = [&] {
    double loss = 0, right = 0;
    int batches = 0;
    for (const Batch& batch : test) {
      const auto out = inference.run(batch);
      loss += meanOf(out[1]);
      right += accuracy(out[0], batch.tensors[1]);
      ++batches;
    }
    return Metrics{{"Validation Loss", loss / batches}, {"Validation Accuracy", right / batches}};
  };
  auto stop = std::make_shared<EarlyStop>();
  NamedTensors best;
  double bestLoss = 1e9;
  int epoch = 0;
  for (; epoch < 100 && stop->bad < 5; ++epoch) {
    const FitResult result = fit(
        model, train, {.epochs = 1, .callbacks = {stop}, .validate = validate, .progress = false});
    if (result.signal) {
      break;
    }
    for (const auto& [name, value] : result.epochs.back()) {
      if (name == "Validation Loss" && value < bestLoss) {
        bestLoss = value;
        best = model.stateDict();
      }
    }
  }
  model.loadStateDict(best);
  std::printf(
      "stopped after %d epochs, best %.4f, %s\n", epoch, bestLoss, validate().back().first.c_str());
  return bestLoss < 0.2 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
