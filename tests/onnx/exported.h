// Networks that tests/torch/onnx_export.py exported, with what PyTorch computed for them.
#pragma once

#include <filesystem>
#include <string>

#include "sluice/onnx/files.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::testing {

/// The tensors of <folder>/<network>.safetensors: input.<name>, output, c and grad.<parameter>; the
/// loss is the sum of the output times c.
NamedTensors exportedTensors(const std::filesystem::path& folder, const std::string& network);

/// The tensors that the model reads, by the names of its inputs.
NamedTensors exportedInputs(const NamedTensors& tensors);

/// Makes one training step: the output must agree to 1e-5, every gradient to 1e-4.
void compareWithTorch(onnx::ImportedModel model, const NamedTensors& tensors);

/// Imports <folder>/<network>.<opset>.onnx and compares it.
void compareExported(const std::filesystem::path& folder, const std::string& network, int opset);

}  // namespace sluice::testing
