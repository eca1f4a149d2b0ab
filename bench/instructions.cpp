// One step of a small network on one thread, for counting instructions: scripts/instructions.py
// runs it in valgrind. Prints nothing.
//
//   bench_instructions mnist | gpt | resnet
#include <array>
#include <iostream>
#include <string_view>

#include "sluice/sluice.h"
#include "tests/support/networks.h"
#include "tests/support/random_tensor.h"
#include "tests/support/resnet.h"

namespace {

using namespace sluice;

Options oneThread() {
  return Options().threads(1).showCompilationProgressBar(false);
}

void trainMnist() {
  constexpr std::int64_t kBatch = 16;
  testing::MnistNetwork net;
  auto model = trainingModel(net, oneThread(), optim::AdamW(1e-3));
  model.run(std::array{testing::randomTensor(1, {DType::F32, {kBatch, 1, 28, 28}}, -1, 1),
                       testing::randomTensor(2, {DType::I64, {kBatch}}, 0, 10)});
}

void trainGpt() {
  const testing::GptShape shape{.context = 32, .width = 64, .layers = 2, .batchSize = 2};
  testing::Gpt net(shape);
  auto model = trainingModel(net, oneThread(), optim::AdamW(1e-3));
  const TensorType ids{DType::I64, {shape.batchSize, shape.context}};
  model.run(std::array{testing::randomTensor(1, ids, 0, static_cast<double>(shape.vocabulary)),
                       testing::randomTensor(2, ids, 0, static_cast<double>(shape.vocabulary))});
}

/// Inference, whose batch norms are folded where weights are constants.
void runResNet() {
  testing::ResNet net({.width = 16, .classes = 10});
  auto model = inferenceModel(net, oneThread());
  model.run(std::array{testing::randomTensor(1, {DType::F32, {1, 3, 64, 64}}, -1, 1),
                       testing::randomTensor(2, {DType::I64, {1}}, 0, 10)});
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "mnist") {
    trainMnist();
  } else if (name == "gpt") {
    trainGpt();
  } else if (name == "resnet") {
    runResNet();
  } else {
    std::cerr << "bench_instructions: expected mnist, gpt or resnet, got '" << name << "'\n";
    return 2;
  }
  return 0;
}
