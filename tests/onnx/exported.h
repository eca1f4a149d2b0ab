// Compares a network that tests/torch/onnx_export.py exported with what PyTorch computed for it.
#pragma once

#include <filesystem>

namespace sluice::testing {

/// Imports <folder>/<network>.<opset>.onnx and makes one training step on the inputs of
/// <folder>/<network>.safetensors: the output must agree to 1e-5, every gradient to 1e-4.
void compareExported(const std::filesystem::path& folder, const std::string& network, int opset);

}  // namespace sluice::testing
