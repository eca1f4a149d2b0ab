// The ops of the standard that a Builder can make, with the attributes that each opset gives them.
#include <algorithm>
#include <set>

#include <onnx/defs/schema.h>

#include "python/core/bindings.h"
#include "sluice/onnx/files.h"

namespace sluice::python {
namespace {

using ::onnx::AttributeProto;
using ::onnx::OpSchema;

const char* kindName(AttributeProto::AttributeType type) {
  switch (type) {
    case AttributeProto::INT:
      return "int";
    case AttributeProto::FLOAT:
      return "float";
    case AttributeProto::STRING:
      return "str";
    case AttributeProto::INTS:
      return "ints";
    case AttributeProto::FLOATS:
      return "floats";
    case AttributeProto::STRINGS:
      return "strs";
    case AttributeProto::TENSOR:
      return "tensor";
    case AttributeProto::GRAPH:
      return "graph";
    default:
      return nullptr;  // sparse tensors and types, which the importer does not read
  }
}

py::object defaultValue(const AttributeProto& value) {
  switch (value.type()) {
    case AttributeProto::INT:
      return py::int_(value.i());
    case AttributeProto::FLOAT:
      return py::float_(value.f());
    case AttributeProto::STRING:
      return py::str(value.s());
    case AttributeProto::INTS:
      return py::cast(std::vector<std::int64_t>(value.ints().begin(), value.ints().end()));
    default:
      return py::none();
  }
}

/// (name, kind, required, default), sorted by name.
py::list attributesOf(const OpSchema& schema) {
  py::list result;
  for (const auto& [name, attribute] : schema.attributes()) {
    if (const char* kind = kindName(attribute.type)) {
      result.append(
          py::make_tuple(name, kind, attribute.required, defaultValue(attribute.default_value)));
    }
  }
  return result;
}

/// Whether an operand or result can only be a sequence or an optional value. A Builder has tensors.
bool isBeyondTensors(const OpSchema& schema) {
  const auto isBeyond = [](const OpSchema::FormalParameter& parameter) {
    return std::ranges::none_of(
        parameter.GetTypes(), [](const std::string* type) { return type->starts_with("tensor("); });
  };
  return std::ranges::any_of(schema.inputs(), isBeyond) ||
         std::ranges::any_of(schema.outputs(), isBeyond);
}

bool isReadable(const OpSchema& schema, const std::set<std::string>& translated) {
  return !isBeyondTensors(schema) && (translated.contains(schema.Name()) || schema.HasFunction() ||
                                      schema.HasContextDependentFunction());
}

/// For each op: its attributes, the least and greatest numbers of operands and of results, and the
/// opset that brought this form of it.
py::dict onnxOps(int opset) {
  const std::vector<std::string> names = onnx::readableOps("");
  const std::set<std::string> translated(names.begin(), names.end());
  py::dict result;
  for (const OpSchema& any : ::onnx::OpSchemaRegistry::get_all_schemas()) {
    const OpSchema* schema = ::onnx::OpSchemaRegistry::Schema(any.Name(), opset, "");
    if (!any.domain().empty() || schema == nullptr || schema->Deprecated() ||
        !isReadable(*schema, translated)) {
      continue;
    }
    result[py::str(schema->Name())] =
        py::make_tuple(attributesOf(*schema),
                       py::make_tuple(schema->min_input(), schema->max_input()),
                       py::make_tuple(schema->min_output(), schema->max_output()),
                       schema->SinceVersion());
  }
  return result;
}

}  // namespace

void bindOnnxOps(py::module_& m) {
  m.def("onnx_ops", &onnxOps, py::arg("opset"), "The standard's ops that a Builder can make.");
  m.def("readable_ops",
        &onnx::readableOps,
        py::arg("domain"),
        "The ops of a domain that have a translation; the standard's domain is ''.");
}

}  // namespace sluice::python
