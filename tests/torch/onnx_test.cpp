// Networks exported by PyTorch give the outputs and gradients that they have there.
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/onnx/exported.h"
#include "tests/support/temp_folder.h"
#include "tests/torch/peer.h"

namespace sluice::testing {
namespace {

struct Exported {
  std::string network;
  int opset = 0;
};

void PrintTo(const Exported& exported, std::ostream* stream) {  // NOLINT: GoogleTest's name
  *stream << exported.network << " of opset " << exported.opset;
}

/// All files are written once.
class ExportedNetwork : public ::testing::TestWithParam<Exported> {
 protected:
  static void SetUpTestSuite() {
    const std::string command =
        fmt::format("/usr/bin/python3 '{}' '{}'", SLUICE_TORCH_EXPORT, folder().path().string());
    const int status = std::system(command.c_str());
    available_ = !WIFEXITED(status) || WEXITSTATUS(status) != kNoTorch;
    ASSERT_TRUE(!available_ || status == 0) << "onnx_export.py failed";
  }
  static const TempFolder& folder() {
    static const TempFolder kFolder;
    return kFolder;
  }
  static inline bool available_ = false;  // NOLINT: set once for all tests
};

TEST_P(ExportedNetwork, ComputesWhatPyTorchComputes) {
  if (!available_) {
    GTEST_SKIP() << "PyTorch cannot be imported by /usr/bin/python3: install python3-torch";
  }
  compareExported(folder().path(), GetParam().network, GetParam().opset);
}

std::vector<Exported> all() {
  std::vector<Exported> list;
  for (const char* network : {"mnist",
                              "mnist_full",
                              "resnet",
                              "resnet_train",
                              "tagger",
                              "gru",
                              "transformer",
                              "transformer_norm_first",
                              "unet",
                              "recurrence"}) {
    for (const int opset : {11, 14, 17}) {
      if (std::string_view(network) != "resnet_train" || opset >= 14) {
        list.push_back({network, opset});
      }
    }
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(Networks,
                         ExportedNetwork,
                         ::testing::ValuesIn(all()),
                         [](const auto& test) {
                           return test.param.network + "_" + std::to_string(test.param.opset);
                         });

}  // namespace
}  // namespace sluice::testing
