// Models of tests in ONNX's text form: imported, evaluated by the reference kernels, and their
// gradients compared with finite differences.
#pragma once

#include <string>

#include "sluice/onnx/files.h"
#include "sluice/ops/interpreter.h"

namespace sluice::testing {

/// A model of one graph, "name (double[2] x) => (double[2] y) { ... }", and perhaps functions. An
/// operand "_" is one that is left out. Throws std::runtime_error if the text is no model.
onnx::ImportedModel importText(const std::string& graph,
                               const onnx::ImportOptions& options = {},
                               int opset = 17);

/// The results, by the reference kernels.
ops::TensorMap evaluateModel(const onnx::ImportedModel& model, const ops::TensorMap& inputs);
/// The same for a model of one result, as numbers.
std::vector<double> resultOf(const onnx::ImportedModel& model, const ops::TensorMap& inputs);

/// Gradients of the sum of the output's elements with respect to all double inputs against central
/// differences.
void expectGradients(const onnx::ImportedModel& model,
                     const ops::TensorMap& inputs,
                     const std::string& output);

/// A double vector.
HostTensor doubles(std::initializer_list<double> values);

}  // namespace sluice::testing
