#include <fmt/core.h>

#include "sluice/sluice.h"

using namespace sluice;

struct Classifier : nn::Module {
  nn::Linear fc1{*this, "fc1", 2, 32};
  nn::Linear fc2{*this, "fc2", 32, 2};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels) {
    {
      const nn::Block block("hidden");
      x = nn::relu(fc1(x));
    }
    const nn::Block block("output");
    x = fc2(x);
    return {x, nn::crossEntropy(x, labels)};
  }
};

int main() try {
  HostTensor points(DType::F32, Shape{512, 2});  // inside or outside of a circle
  HostTensor labels(DType::I64, Shape{512});
  for (std::int64_t i = 0; i < 512; ++i) {
    const std::int64_t row = i / 32;
    const double x = static_cast<double>(i % 32) / 16 - 1;
    const double y = static_cast<double>(row) / 8 - 1;
    points.set(2 * i, x);
    points.set(2 * i + 1, y);
    labels.set(i, x * x + y * y < 0.5 ? 1 : 0);
  }
  Classifier net;
  Options options;
  options.memoryPerDevice("256KiB");
  options.setExecutionStrategy(PipelinedExecution("hidden", "output"));  // a device each
  options.training.gradientAccumulation(4);  // 4 micro-batches of 128 points per update
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  for (int step = 0; step < 300; ++step) {
    model(points, labels);
  }
  Options test = options.clone();  // a model freezes the options it was given
  test.training.gradientAccumulation(1);
  test.deviceIterations(4);                    // 4 micro-batches keep both devices busy
  auto inference = inferenceModel(net, test);  // the same weights, not a copy
  const auto [logits, loss] = inference(points, labels);
  fmt::print("loss {:.3f}, accuracy {:.1f}%\n", meanOf(loss), accuracy(logits, labels));
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
}
