// PopART's annotations of nodes: attributes that say where an op runs, and hints for its compiler.
// Internal to this module.
#pragma once

#include <string_view>

#include <onnx/onnx_pb.h>

#include "sluice/ir/graph.h"

namespace sluice::onnx {

/// Whether the attribute is an annotation and no attribute of the op.
bool isAnnotation(std::string_view attr);
/// Sets the fields that the node says. Throws InvalidArgument for a number that is too large.
void readPlacement(const ::onnx::NodeProto& node, ir::Placement& place);
/// Adds an attribute for each field that is set.
void writePlacement(::onnx::NodeProto& node, const ir::Placement& place);

}  // namespace sluice::onnx
