// Weights and optimizer state as files that PyTorch reads and writes.
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "sluice/sluice.h"
#include "tests/support/networks.h"
#include "tests/support/random_tensor.h"
#include "tests/support/temp_folder.h"
#include "tests/torch/peer.h"

namespace sluice {
namespace {

using nlohmann::json;
using testing::kNoTorch;
using testing::MnistNetwork;
using testing::randomTensor;
using testing::relativeDifference;
using testing::TempFolder;

/// Few images: where two elements of a pooling window differ by a rounding error only, the gradient
/// of either is right, and among 40 images there are such windows (conv1.weight alone then
/// differs).
const std::vector<HostTensor>& inputs() {
  static const std::vector<HostTensor> all = {randomTensor(6, {DType::F32, {4, 1, 28, 28}}, -1, 1),
                                              randomTensor(7, {DType::I64, {4}}, 0, 10)};
  return all;
}

/// Starts state_peer.py; false where there is no PyTorch.
bool runPeer(const TempFolder& folder) {
  const std::string command = std::string("/usr/bin/python3 '") + SLUICE_TORCH_STATE_PEER + "' '" +
                              folder.path().string() + "'";
  const int status = std::system(command.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoTorch) {
    return false;
  }
  EXPECT_EQ(status, 0) << "state_peer.py failed";
  return status == 0;
}

void expectNear(const NamedTensors& here, const NamedTensors& there, double tolerance) {
  for (const auto& [name, tensor] : here) {
    EXPECT_LE(relativeDifference(tensor, there.at(name)), tolerance) << name;
  }
}

/// Three steps here; PyTorch goes on from the files for three more, and makes six of its own, of
/// which the last three are made here again from its files.
template <class Rule>
void expectFilesToGoOn(const Rule& rule, const json& torchRule) {
  SCOPED_TRACE(torchRule.dump());
  const TempFolder folder;
  const auto file = [&](const std::string& name) { return folder / (name + ".safetensors"); };
  std::ofstream(folder / "rule.json") << torchRule;
  writeSafeTensors(file("inputs"), {.tensors = {{"images", inputs()[0]}, {"labels", inputs()[1]}}});
  MnistNetwork net;
  auto model = trainingModel(net, Options().outputMode(OutputMode::All), rule);
  const auto train = [](Model& trained) {
    for (int i = 0; i < 3; ++i) {
      trained.run(inputs());
    }
  };
  train(model);
  writeSafeTensors(file("weights"), {.tensors = nn::exportTorch(model.stateDict())});
  writeSafeTensors(file("optimizer"), {.tensors = flattened(exportTorch(model))});
  if (!runPeer(folder)) {
    GTEST_SKIP() << "PyTorch is not installed";
  }
  const HostTensor logits = inferenceModel(net, Options()).run(inputs())[0];
  EXPECT_LE(relativeDifference(logits, readSafeTensors(file("logits")).tensors.at("logits")), 1e-5);
  train(model);
  expectNear(model.stateDict(), readSafeTensors(file("continued")).tensors, 1e-5);
  // And back.
  MnistNetwork back;
  Rule changed = rule;
  changed.setLr(0.5);  // PyTorch's file says otherwise
  auto resumed = trainingModel(back, Options(), changed);
  resumed.loadStateDict(
      nn::importTorch(resumed.variables(), readSafeTensors(file("trained")).tensors));
  resumed.loadOptimizerStateDict(
      importTorch(resumed, sectioned(readSafeTensors(file("optimizer_trained")).tensors)));
  train(resumed);
  NamedTensors after = readSafeTensors(file("after")).tensors;
  expectNear(resumed.stateDict(), after, 1e-5);
  MnistNetwork loaded;
  auto inference = inferenceModel(loaded, Options());
  const HostTensor expected = after.at("logits");
  after.erase("logits");
  inference.loadStateDict(after);
  EXPECT_LE(relativeDifference(inference.run(inputs())[0], expected), 1e-5);
}

TEST(TorchFiles, OfAdamWGoOnOnTheOtherSideWithTheSameLogits) {
  expectFilesToGoOn(optim::AdamW(1e-3), {{"rule", "AdamW"}, {"lr", 1e-3}, {"foreach", false}});
}

TEST(TorchFiles, OfSgdGoOnOnTheOtherSideWithTheSameLogits) {
  expectFilesToGoOn(optim::SGD({.lr = 0.05, .momentum = 0.9, .nesterov = true}),
                    {{"rule", "SGD"}, {"lr", 0.05}, {"momentum", 0.9}, {"nesterov", true}});
}

TEST(TorchFiles, OfRmsPropGoOnOnTheOtherSideWithTheSameLogits) {
  expectFilesToGoOn(optim::RMSprop({.lr = 1e-3, .eps = 1e-4, .momentum = 0.5}),
                    {{"rule", "RMSprop"}, {"lr", 1e-3}, {"eps", 1e-4}, {"momentum", 0.5}});
}

}  // namespace
}  // namespace sluice
