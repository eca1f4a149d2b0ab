// Networks as PyTorch 1.13 exports them give the outputs and gradients that PyTorch computed. The
// files are of tests/torch/onnx_export.py; tests/torch makes them anew and compares more of them.
#include <ostream>

#include <gtest/gtest.h>

#include "tests/onnx/exported.h"

namespace sluice::testing {
namespace {

struct Kept {
  const char* network;
  int opset;
};

void PrintTo(const Kept& kept, std::ostream* stream) {  // NOLINT: GoogleTest's name
  *stream << kept.network << " of opset " << kept.opset;
}

class KeptNetwork : public ::testing::TestWithParam<Kept> {};

TEST_P(KeptNetwork, ComputesWhatPyTorchComputed) {
  compareExported(SLUICE_ONNX_MODELS, GetParam().network, GetParam().opset);
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
