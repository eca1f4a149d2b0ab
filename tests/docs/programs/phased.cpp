// A model larger than its device, written from the documents alone: the weights and the state of
// the optimizer take five times the memory of the device, so it runs in phases. The bits are those
// of one device with room for all of it.
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

constexpr int kLayers = 8;

struct Layer : nn::Module {
  nn::Linear fc{*this, "fc", 64, 64};
  Layer(nn::Module& parent, std::string name) : nn::Module(parent, name) {}
  nn::Tensor forward(nn::Tensor x) { return x + nn::tanh(fc(x)); }
};

struct Deep : nn::Module {
  nn::ModuleList<Layer> layers{*this, "layers"};
  nn::Linear head{*this, "head", 64, 1};

  Deep() {
    for (int i = 0; i < kLayers; ++i) {
      layers.emplace();
    }
  }
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) {
    for (int i = 0; i < kLayers; ++i) {
      const nn::Block block("layer" + std::to_string(i));
      x = layers[i].forward(x);
    }
    const nn::Block block("head");
    return nn::mseLoss(head(x), y);
  }
};

std::pair<double, std::vector<double>> train(Options options) {
  HostTensor x(DType::F32, Shape{32, 64});
  HostTensor y(DType::F32, Shape{32, 1});
  for (std::int64_t i = 0; i < 32; ++i) {
    x.set(64 * i + i % 64, 1);
    y.set(i, i % 2 == 0 ? 1 : -1);
  }
  options.training.gradientAccumulation(4);
  Deep net;
  auto model = trainingModel(net, options, optim::AdamW(1e-2));
  double loss = 0;
  for (int step = 0; step < 40; ++step) {
    loss = meanOf(model(x, y));
  }
  return {loss, model.stateDict().at("head.weight").toDoubles()};
}

int main() try {
  Options small;
  small.memoryPerDevice("128KiB");
  bool refused = false;
  try {
    train(small.clone());
  } catch (const OutOfMemory& error) {
    refused = true;
    std::printf("%s\n", error.what());
  }
  small.setExecutionStrategy(SerialPhasedExecution(Phase::automatic(9)));
  const auto phased = train(small);
  const auto whole = train(Options());
  std::printf("loss %.5f\n", phased.first);
  return refused && phased == whole && phased.first < 0.05 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
