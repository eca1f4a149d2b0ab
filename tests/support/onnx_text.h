// ONNX models in the text form of the standard, for tests of the importer.
#pragma once

#include <string>

#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

#include "sluice/onnx/files.h"
#include "sluice/onnx/proto.h"
#include "sluice/ops/interpreter.h"
#include "tests/support/message_of.h"

namespace sluice::testing {

/// Opset 17 of the standard and the vendor's ops.
inline constexpr const char* kOnnxHeader =
    "<ir_version: 8, opset_import: [\"\" : 17, \"ai.graphcore\" : 1]>\n";

inline ::onnx::ModelProto parseOnnx(const std::string& graph,
                                    const std::string& header = kOnnxHeader) {
  ::onnx::ModelProto model;
  const auto status = ::onnx::OnnxParser::Parse(model, (header + graph).c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model;
}

inline onnx::ImportedModel importOnnx(const ::onnx::ModelProto& model,
                                      const onnx::ImportOptions& options = {}) {
  const std::string bytes = model.SerializeAsString();
  return onnx::importModelBytes(std::as_bytes(std::span(bytes)), options);
}

inline void addInitializer(::onnx::ModelProto& model,
                           const std::string& name,
                           const HostTensor& value) {
  *model.mutable_graph()->add_initializer() = onnx::toTensorProto(value, name);
}

inline ops::TensorMap firstValues(const ir::Graph& graph) {
  ops::TensorMap variables;
  for (const ir::Variable& variable : graph.variables()) {
    variables.emplace(variable.name, variable.initializer.tensor);
  }
  return variables;
}

/// The outputs of a model, computed by the reference kernels.
inline ops::TensorMap evaluateOnnx(const ::onnx::ModelProto& model, const ops::TensorMap& inputs) {
  const onnx::ImportedModel imported = importOnnx(model);
  ops::TensorMap variables = firstValues(imported.graph);
  return ops::evaluate(imported.graph, inputs, variables);
}

inline std::string onnxRefusal(const std::string& graph) {
  const ::onnx::ModelProto model = parseOnnx(graph);
  return messageOf<Error>([&] { importOnnx(model); });
}

}  // namespace sluice::testing
