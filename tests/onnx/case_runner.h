// Runs one case of the ONNX standard: a folder with model.onnx and data sets of inputs and expected
// outputs. Inputs that fix a shape or an axis are bound as constants.
#pragma once

#include <filesystem>
#include <string>

namespace sluice::testing {

enum class Verdict { Passed, Failed, Skipped };

struct CaseResult {
  Verdict verdict = Verdict::Failed;
  std::string note;  ///< why it failed or was skipped, or which inputs were bound
};

CaseResult runCase(const std::filesystem::path& folder);

}  // namespace sluice::testing
