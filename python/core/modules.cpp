// The tree of a model's modules with their parameters.
#include "python/core/modules.h"

#include <array>

#include "python/core/choice.h"
#include "python/core/scope.h"
#include "sluice/nn/block.h"
#include "sluice/nn/parameter.h"
#include "sluice/nn/tracer.h"

namespace sluice::python {
namespace {

using ModulePtr = std::shared_ptr<DynamicModule>;

ModulePtr makeModule(const ModulePtr& parent, std::string name, std::string kind) {
  return parent == nullptr
             ? std::make_shared<DynamicModule>(std::move(kind))
             : std::make_shared<DynamicModule>(*parent, std::move(name), std::move(kind));
}

using InitializerArgs = std::tuple<std::string, double, double>;

ir::Initializer initializerOf(const InitializerArgs& given) {
  const auto& [kind, a, b] = given;
  using Kind = ir::Initializer::Kind;
  return {choice<Kind>(
              "initializer",
              kind,
              {{"constant", Kind::Constant}, {"uniform", Kind::Uniform}, {"normal", Kind::Normal}}),
          a,
          b,
          {}};
}

nn::Parameter& addVariable(DynamicModule& self,
                           std::string name,
                           const std::vector<std::int64_t>& shape,
                           const std::string& dtype,
                           const InitializerArgs& initializer,
                           bool isBuffer) {
  const TensorType type{parseDtype(dtype), Shape(shape)};
  return isBuffer ? self.addBuffer(std::move(name), type, initializerOf(initializer))
                  : self.addParameter(std::move(name), type, initializerOf(initializer));
}

void bindParameter(py::module_& m) {
  using nn::Parameter;
  py::class_<Parameter, std::unique_ptr<Parameter, py::nodelete>>(
      m, "Parameter", "A named tensor of a module.")
      .def_property_readonly("name", &Parameter::name)
      .def_property_readonly("full_name", &Parameter::fullName)
      .def_property_readonly("shape", [](const Parameter& p) { return shapeTuple(p.type().shape); })
      .def_property_readonly("dtype", [](const Parameter& p) { return dtypeName(p.type().dtype); })
      .def_property_readonly("is_buffer", &Parameter::isBuffer)
      .def_property("trainable", &Parameter::trainable, &Parameter::setTrainable)
      .def("value", &Parameter::value, py::call_guard<Unlocked>())
      .def("set_value", &Parameter::setValue, py::arg("value"), py::call_guard<Unlocked>())
      .def("use", &Parameter::use, "The value in the current trace.")
      .def("assign", &Parameter::assign, py::arg("value"), "Writes a buffer in the current trace.");
}

/// Runs before every call of a model, so it takes the dictionaries as they are.
bool sameMembers(const py::list& modules, const py::list& members) {
  static const std::array<py::handle, 3> kNames{PyUnicode_InternFromString("_parameters"),
                                                PyUnicode_InternFromString("_buffers"),
                                                PyUnicode_InternFromString("_modules")};
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const py::list expected = members[i];
    std::size_t seen = 0;
    for (const py::handle name : kNames) {
      const py::dict values = py::getattr(modules[i], name);
      for (const auto& [key, value] : values) {
        if (seen == expected.size() || !value.is(expected[seen])) {
          return false;
        }
        ++seen;
      }
    }
    if (seen != expected.size()) {
      return false;
    }
  }
  return true;
}

}  // namespace

void bindModules(py::module_& m) {
  bindParameter(m);
  const auto inside = py::return_value_policy::reference_internal;
  py::class_<DynamicModule, ModulePtr>(m, "Module", "A node in the tree of a model.")
      .def(py::init(&makeModule),
           py::arg("parent") = nullptr,
           py::arg("name") = "",
           py::arg("kind") = "Module",
           py::keep_alive<1, 2>())
      .def_property_readonly("path", &DynamicModule::path)
      .def(
          "add_parameter",
          [](DynamicModule& self, std::string name, const HostTensor& value) -> nn::Parameter& {
            return self.addParameter(std::move(name), value.type(), ir::Initializer::of(value));
          },
          py::arg("name"),
          py::arg("value"),
          inside)
      .def(
          "add_buffer",
          [](DynamicModule& self, std::string name, const HostTensor& value) -> nn::Parameter& {
            return self.addBuffer(std::move(name), value.type(), ir::Initializer::of(value));
          },
          py::arg("name"),
          py::arg("value"),
          inside)
      .def("add_variable",
           &addVariable,
           py::arg("name"),
           py::arg("shape"),
           py::arg("dtype"),
           py::arg("initializer"),
           py::arg("is_buffer") = false,
           "A weight or a buffer; the initializer is ('constant', value, 0), ('uniform', low, "
           "high) or "
           "('normal', mean, deviation).",
           inside)
      .def("train", &DynamicModule::train, py::arg("training") = true)
      .def(
          "autocast",
          [](DynamicModule& self, bool on) { self.autocast(on); },
          py::arg("enabled") = true)
      .def(
          "set_block_mark",
          [](DynamicModule& self,
             const std::optional<std::string>& id,
             std::optional<std::int64_t> device) {
            self.setBlockMark(nn::BlockMark{id.value_or(""), device});
          },
          py::arg("id") = py::none(),
          py::arg("device") = py::none())
      .def("clear_block_mark", [](DynamicModule& self) { self.setBlockMark(std::nullopt); })
      .def("set_seed", &DynamicModule::setSeed, py::arg("seed"))
      .def("summary", &DynamicModule::summary);
  m.def("same_members",
        &sameMembers,
        py::arg("modules"),
        py::arg("members"),
        "Whether modules of torch have these parameters, buffers and parts, object by object.");
  bindScope<nn::ModuleScope>(
      m,
      "ModuleScope",
      "The names, the block and the autocast setting of a module while it is applied.",
      [](const ModulePtr& module) {
        return Scope<nn::ModuleScope>(
            [module] { return std::make_unique<nn::ModuleScope>(*module); });
      },
      py::arg("module"));
}

}  // namespace sluice::python
