#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

struct Classifier : nn::Module {
  nn::Linear fc1{*this, "fc1", 20, 64};
  nn::Linear fc2{*this, "fc2", 64, 3};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels) {
    const nn::Tensor logits = fc2(nn::relu(fc1(x)));
    return {logits, nn::crossEntropy(logits, labels)};
  }
};

int main() {
  HostTensor points(DType::F32, Shape{96, 20});
  HostTensor labels(DType::I64, Shape{96});
  for (int i = 0; i < 96 * 20; ++i) {
    points.set(i, uniform01(RandomStream{1, 0, 0}.word(static_cast<std::uint64_t>(i))));
    labels.set(i / 20, i / 20 % 3);
  }
  Classifier net;
  auto model = trainingModel(net, Options().threads(2), optim::AdamW(0.01));
  for (int step = 0; step < 200; ++step) {
    const auto [logits, loss] = model(points, labels);
    if (step % 50 == 49) {
      std::printf("loss %.4f, accuracy %.1f%%\n", loss.at(0), accuracy(logits, labels));
    }
  }
}
