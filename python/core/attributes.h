// Attributes of ops from Python values.
#pragma once

#include "python/core/bindings.h"
#include "sluice/ir/op_def.h"
#include "sluice/ops/custom_op.h"

namespace sluice::python {

/// The value as an attribute of this kind. Throws InvalidArgument, naming `what`, if it is not one.
ir::Attr toAttr(std::string_view what, ir::AttrKind kind, const py::handle& value);

/// Attributes of a custom op. Throws InvalidArgument for values that are no attributes.
std::vector<ops::CustomAttribute> customAttributes(const py::dict& attributes);

/// The attributes of an op by the names of its schema. Throws InvalidArgument for names that it
/// does not have, and lists those that it has.
ir::Attrs toAttrs(const ir::OpDef& def, const py::dict& values);

}  // namespace sluice::python
