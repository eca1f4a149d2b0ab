// What the standard's own library says of a model, for tests of exported files.
#pragma once

#include <set>
#include <string>

#include <gtest/gtest.h>
#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include "sluice/ir/graph.h"

namespace sluice::testing {

inline ::onnx::ModelProto parseModelBytes(const std::string& bytes) {
  ::onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(bytes));
  return model;
}

/// The nodes outside of the standard's domain, as "domain.op".
inline std::set<std::string> foreignNodes(const ::onnx::ModelProto& model) {
  std::set<std::string> names;
  for (const ::onnx::NodeProto& node : model.graph().node()) {
    if (!node.domain().empty()) {
      names.insert(node.domain() + "." + node.op_type());
    }
  }
  return names;
}

/// The checker accepts the model, and strict inference of types and shapes finds in every node
/// types that its op has, and the declared ones in the outputs.
inline void expectStandard(::onnx::ModelProto model) {
  EXPECT_EQ(foreignNodes(model), std::set<std::string>());
  try {
    ::onnx::checker::check_model(model);
    const ::onnx::ShapeInferenceOptions strict(true, 1, true);
    ::onnx::shape_inference::InferShapes(model, ::onnx::OpSchemaRegistry::Instance(), strict);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << "\n" << model.DebugString();
  }
}

}  // namespace sluice::testing
