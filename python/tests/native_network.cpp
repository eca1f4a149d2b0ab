// The MNIST network written in C++, trained with what a test of Python gives it:
//
//   native_network in.safetensors out.safetensors
//
// The first file has the weights by name and the data "x" and "y". The second gets the weights
// after three calls of AdamW, four micro-batches each, on four devices.
#include <iostream>
#include <vector>

#include "sluice/sluice.h"
#include "sluice/tensor/safetensors.h"
#include "tests/support/networks.h"

namespace {

using namespace sluice;

void train(const char* from, const char* to) {
  SafeTensors given = readSafeTensors(from);
  const std::vector<HostTensor> data = {given.tensors.at("x"), given.tensors.at("y")};
  given.tensors.erase("x");
  given.tensors.erase("y");
  testing::MnistBlocks net;
  nn::loadStateDict(net, given.tensors);
  Options options;
  options.showCompilationProgressBar(false).setExecutionStrategy(PipelinedExecution{
      Stage("B1").device(0), Stage("B2").device(1), Stage("B3").device(2), Stage("B4").device(3)});
  options.training.gradientAccumulation(4);
  auto model = trainingModel(net, options, optim::AdamW({.lr = 0.01, .weightDecay = 0.01}));
  for (int i = 0; i < 3; ++i) {
    model.run(data);
  }
  writeSafeTensors(to, {.tensors = model.stateDict()});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "native_network: expected two files\n";
    return 2;
  }
  try {
    train(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "native_network: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
