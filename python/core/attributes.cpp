#include "python/core/attributes.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::python {
namespace {

template <class T>
T as(std::string_view what, std::string_view expected, const py::handle& value) {
  try {
    return value.cast<T>();
  } catch (const py::cast_error&) {
    raise<InvalidArgument>(
        "{}: expected {}, got {}", what, expected, py::repr(value).cast<std::string>());
  }
}

const ir::AttrSpec& specOf(const ir::OpDef& def, const std::string& name) {
  const auto found = std::ranges::find(def.attrs, name, &ir::AttrSpec::name);
  if (found == def.attrs.end()) {
    std::vector<std::string_view> known;
    for (const ir::AttrSpec& spec : def.attrs) {
      known.push_back(spec.name);
    }
    raise<InvalidArgument>(
        "{} has no attribute '{}'; it has: {}", def.name, name, fmt::join(known, ", "));
  }
  return *found;
}

ops::AttrValue attrValue(const py::handle& value) {
  if (py::isinstance<py::str>(value)) {
    return value.cast<std::string>();
  }
  if (py::isinstance<py::float_>(value)) {
    return value.cast<double>();
  }
  if (py::isinstance<py::int_>(value)) {
    return value.cast<std::int64_t>();
  }
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    std::vector<ops::AttrValue> items;
    for (const py::handle& item : py::reinterpret_borrow<py::iterable>(value)) {
      items.push_back(attrValue(item));
    }
    return ops::AttrValue(std::move(items));
  }
  raise<InvalidArgument>("custom_op: an attribute is a number, a text or a list of these, not {}",
                         py::repr(value).cast<std::string>());
}

}  // namespace

std::vector<ops::CustomAttribute> customAttributes(const py::dict& attributes) {
  std::vector<ops::CustomAttribute> result;
  for (const auto& [key, value] : attributes) {
    result.push_back({key.cast<std::string>(), attrValue(value)});
  }
  return result;
}

ir::Attr toAttr(std::string_view what, ir::AttrKind kind, const py::handle& value) {
  switch (kind) {
    case ir::AttrKind::Int:
      return as<std::int64_t>(what, "an integer", value);
    case ir::AttrKind::Real:
      return as<double>(what, "a number", value);
    case ir::AttrKind::Bool:
      return as<bool>(what, "True or False", value);
    case ir::AttrKind::Text:
      return as<std::string>(what, "a text", value);
    case ir::AttrKind::Ints:
      return as<std::vector<std::int64_t>>(what, "a list of integers", value);
    case ir::AttrKind::Reals:
      return as<std::vector<double>>(what, "a list of numbers", value);
    case ir::AttrKind::Texts:
      return as<std::vector<std::string>>(what, "a list of texts", value);
    case ir::AttrKind::Tensor:
      return as<HostTensor>(what, "a HostTensor", value);
    case ir::AttrKind::Subgraph:
      break;
  }
  raise<Unsupported>("{}: an op with a graph inside cannot be made from Python", what);
}

ir::Attrs toAttrs(const ir::OpDef& def, const py::dict& values) {
  ir::Attrs attrs;
  for (const auto& [key, value] : values) {
    const auto name = key.cast<std::string>();
    const ir::AttrSpec& spec = specOf(def, name);
    attrs.set({name, toAttr(fmt::format("{}, {}", def.name, name), spec.kind, value)});
  }
  return attrs;
}

}  // namespace sluice::python
