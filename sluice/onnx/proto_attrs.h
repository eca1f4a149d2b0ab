// Attributes and types of tensors into their protos. Internal to this module.
#pragma once

#include <string>

#include <onnx/onnx_pb.h>

#include "sluice/ir/attrs.h"
#include "sluice/tensor/shape.h"

namespace sluice::onnx {

void setType(::onnx::ValueInfoProto& info, const std::string& name, const TensorType& type);
/// Real numbers that 32 bits would change are written as tensors. Throws Unsupported for bodies.
void addAttr(::onnx::NodeProto& node, const ir::NamedAttr& attr);
/// The same with real numbers as the 32-bit ones that the standard has.
void addNarrowAttr(::onnx::NodeProto& node, const ir::NamedAttr& attr);

}  // namespace sluice::onnx
