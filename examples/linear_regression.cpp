// Fits y = 2x + 1 from noisy points: the smallest complete Sluice program.
#include <fmt/core.h>

#include "sluice/sluice.h"

using namespace sluice;

struct Line : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1};
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) { return nn::mseLoss(fc(x), y); }
};

int main() try {
  HostTensor x(DType::F32, Shape{64, 1});
  HostTensor y(DType::F32, Shape{64, 1});
  for (std::int64_t i = 0; i < 64; ++i) {
    const double t = static_cast<double>(i) / 32 - 1;
    x.set(i, t);
    y.set(i, 2 * t + 1 + 0.01 * static_cast<double>(i % 5 - 2));
  }
  Line line;
  auto model = trainingModel(line, Options(), optim::SGD(0.3));
  HostTensor loss;
  for (int step = 0; step < 100; ++step) {
    loss = model(x, y);
  }
  fmt::print("loss {:.6f}, slope {:.3f}, intercept {:.3f}\n",
             loss.at(0),
             line.find("fc.weight")->value().at(0),
             line.find("fc.bias")->value().at(0));
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
} catch (...) {
  fmt::print(stderr, "error: an exception of an unknown type\n");
  return 1;
}
