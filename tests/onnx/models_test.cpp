// Networks as PyTorch 1.13 exports them give the outputs and gradients that PyTorch computed, also
// after they were exported again. The files are of tests/torch/onnx_export.py; tests/torch makes
// them anew and compares more of them.
#include <ostream>

#include <gtest/gtest.h>

#include "sluice/ir/printer.h"
#include "sluice/onnx/files.h"
#include "tests/onnx/exported.h"
#include "tests/support/onnx_check.h"

namespace sluice::testing {
namespace {

struct Kept {
  const char* network;
  int opset;
};

void PrintTo(const Kept& kept, std::ostream* stream) {  // NOLINT: GoogleTest's name
  *stream << kept.network << " of opset " << kept.opset;
}

onnx::ImportedModel importKept(const Kept& kept) {
  return onnx::importModel(std::filesystem::path(SLUICE_ONNX_MODELS) /
                           fmt::format("{}.{}.onnx", kept.network, kept.opset));
}

onnx::ImportedModel importBytes(const std::string& bytes) {
  return onnx::importModelBytes(std::as_bytes(std::span(bytes)));
}

class KeptNetwork : public ::testing::TestWithParam<Kept> {};

TEST_P(KeptNetwork, ComputesWhatPyTorchComputed) {
  compareExported(SLUICE_ONNX_MODELS, GetParam().network, GetParam().opset);
}

TEST_P(KeptNetwork, IsExportedInOpsOfTheStandard) {
  const std::string bytes = onnx::exportModelBytes(importKept(GetParam()).graph);
  expectStandard(parseModelBytes(bytes));
  compareWithTorch(importBytes(bytes), exportedTensors(SLUICE_ONNX_MODELS, GetParam().network));
}

TEST_P(KeptNetwork, IsReadBackFromAnExactFile) {
  const ir::Graph graph = importKept(GetParam()).graph;
  const std::string bytes = onnx::exportModelBytes(graph, {.exact = onnx::Exact::Yes});
  EXPECT_TRUE(ir::structurallyEqual(importBytes(bytes).graph, graph)) << ir::print(graph);
}

INSTANTIATE_TEST_SUITE_P(Networks,
                         KeptNetwork,
                         ::testing::Values(Kept{"mnist", 11},
                                           Kept{"recurrence", 14},
                                           Kept{"resnet", 11},
                                           Kept{"resnet_train", 17},
                                           Kept{"tagger", 14},
                                           Kept{"transformer", 17},
                                           Kept{"unet", 14}),
                         [](const auto& test) { return std::string(test.param.network); });

}  // namespace
}  // namespace sluice::testing
