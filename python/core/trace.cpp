// What forward functions are made of: symbolic tensors, ops by name, and scopes.
#include "python/core/attributes.h"
#include "python/core/bindings.h"
#include "python/core/scope.h"
#include "sluice/api/devices.h"
#include "sluice/base/error.h"
#include "sluice/base/near_names.h"
#include "sluice/nn/block.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/op_list.h"
#include "sluice/runtime/turn.h"

namespace sluice::python {
namespace {

const ir::OpDef& defOf(const std::string& name) {
  const ir::OpDef* def = ops::opSet().find(name);
  if (def == nullptr) {
    raise<InvalidArgument>("there is no op '{}'; `sluice ops` lists them", name);
  }
  return *def;
}

std::vector<nn::Tensor> makeOp(const std::string& name,
                               const std::vector<nn::Tensor>& inputs,
                               const py::dict& attributes) {
  const ir::OpDef& def = defOf(name);
  ir::GraphBuilder& b = nn::Tracer::current().builder();
  ir::Attrs attrs = toAttrs(def, attributes);
  if (def.traits.random && attrs.find("ordinal") == nullptr) {
    attrs.set({"ordinal", b.nextRandomOrdinal()});
  }
  return nn::tensorsOf(b, b.addMany(def, nn::valuesOf(inputs), std::move(attrs)));
}

py::object attrValue(const ir::Attr& attr) {
  return std::visit(
      []<class T>(const T& value) -> py::object {
        if constexpr (std::is_same_v<T, ir::GraphRef>) {
          return py::none();
        } else {
          return py::cast(value);
        }
      },
      attr);
}

/// Each attribute's kind, whether it is required, and its default.
py::dict schema(const std::string& name) {
  py::dict result;
  for (const ir::AttrSpec& spec : defOf(name).attrs) {
    result[py::str(std::string(spec.name))] =
        py::make_tuple(std::string(ir::name(spec.kind)),
                       spec.required,
                       spec.required ? py::object(py::none()) : attrValue(ir::defaultOf(spec)));
  }
  return result;
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const ir::OpDef* def : ops::opSet().all()) {
    result.emplace_back(def->name);
  }
  return result;
}

std::vector<nn::Tensor> resolved(const std::string& function, std::vector<nn::Tensor> tensors) {
  nn::resolveTypes(function, tensors);
  return tensors;
}

/// Debuggers show tensors of traces that have ended, too.
std::string textOf(const nn::Tensor& tensor) {
  if (!tensor.defined()) {
    return "Tensor()";
  }
  try {
    return "Tensor(" + tensor.type().str() + ")";
  } catch (const InvalidArgument&) {
    return "Tensor(of another trace)";
  }
}

Scope<nn::Block> blockScope(const std::optional<std::string>& id,
                            std::optional<std::int64_t> device) {
  return Scope<nn::Block>([=]() -> std::unique_ptr<nn::Block> {
    if (id) {
      return std::make_unique<nn::Block>(*id, device);
    }
    return device ? std::make_unique<nn::Block>(*device) : std::make_unique<nn::Block>();
  });
}

}  // namespace

void bindTrace(py::module_& m) {
  py::class_<nn::Tensor>(m, "Tensor", "A value of the model that is being traced.")
      .def_property_readonly("shape", [](const nn::Tensor& t) { return shapeTuple(t.shape()); })
      .def_property_readonly("dtype", [](const nn::Tensor& t) { return dtypeName(t.dtype()); })
      .def_property_readonly("defined", &nn::Tensor::defined)
      .def("__repr__", &textOf);
  m.def("op", &makeOp, py::arg("name"), py::arg("inputs"), py::arg("attrs") = py::dict());
  m.def("op_names", &names);
  m.def("op_schema", &schema, py::arg("name"));
  m.def("constant", &nn::constant, py::arg("value"));
  m.def(
      "scalar",
      [](double value, const std::string& dtype) { return nn::scalar(value, parseDtype(dtype)); },
      py::arg("value"),
      py::arg("dtype") = "float32");
  m.def("resolve_types", &resolved, py::arg("function"), py::arg("tensors"));
  m.def("tracing", &nn::Tracer::active);
  m.def("traces_training", [] { return nn::Tracer::active() && nn::Tracer::current().training(); });
  m.def("use_auto_id", &nn::Block::useAutoId);
  bindScope<nn::Block>(m,
                       "Block",
                       "Puts the ops made inside into a block.",
                       &blockScope,
                       py::arg("id") = py::none(),
                       py::arg("device") = py::none());
  bindScope<nn::NameScope>(
      m,
      "NameScope",
      "Prefixes the names of the ops made inside.",
      [](const std::string& name) {
        return Scope<nn::NameScope>([name] { return std::make_unique<nn::NameScope>(name); });
      },
      py::arg("name"));
  bindScope<nn::Autocast>(
      m,
      "Autocast",
      "Switches autocast on or off inside.",
      [](bool enabled) {
        return Scope<nn::Autocast>([enabled] { return std::make_unique<nn::Autocast>(enabled); });
      },
      py::arg("enabled") = true);
  bindScope<runtime::Turn::Work>(
      m, "Work", "Inside, the thread works for those who wait for the thread that made this.", [] {
        const std::span<const runtime::Turn::Mark> marks = runtime::Turn::Work::current();
        return Scope<runtime::Turn::Work>(
            [kept = std::vector<runtime::Turn::Mark>(marks.begin(), marks.end())] {
              return std::make_unique<runtime::Turn::Work>(kept);
            });
      });
}

}  // namespace sluice::python
