// All options by the name of their setter, as files and the environment have them.
#include "python/core/options.h"

#include "sluice/api/options.h"
#include "sluice/api/options_table.h"
#include "sluice/base/error.h"

namespace sluice::python {
namespace {

using detail::OptionValue;

std::vector<OptionValue> toValues(const py::iterable& values) {
  std::vector<OptionValue> result;
  for (const py::handle& value : values) {
    result.push_back(toOptionValue(value));
  }
  return result;
}

OptionValue callValue(const OptionCall& call) {
  OptionValue value{.kind = OptionValue::Kind::Call, .text = call.name};
  value.items = toValues(call.arguments);
  value.then = toValues(call.then);
  return value;
}

void apply(Options& options, const std::string& name, const py::args& values) {
  Options changed = options;
  detail::apply(changed, name, toValues(values));
  options = std::move(changed);
}

/// The value as the setter's arguments; None if another setter prints it.
py::object printed(const Options& options, const std::string& name) {
  const detail::Setting& setting = detail::settingOf(name);
  return setting.print == nullptr ? py::object(py::none()) : py::str(setting.print(options));
}

std::vector<std::string> settingNames() {
  std::vector<std::string> names;
  for (const detail::Setting& setting : detail::settings()) {
    names.emplace_back(setting.name);
  }
  return names;
}

}  // namespace

OptionValue toOptionValue(const py::handle& value) {
  using Kind = OptionValue::Kind;
  if (value.is_none()) {
    return {};
  }
  if (py::isinstance<OptionName>(value)) {
    return {.kind = Kind::Name, .text = value.cast<const OptionName&>().text};
  }
  if (py::isinstance<OptionCall>(value)) {
    return callValue(value.cast<const OptionCall&>());
  }
  if (py::isinstance<py::bool_>(value)) {
    return {.kind = Kind::Bool, .boolean = value.cast<bool>()};
  }
  if (py::isinstance<py::int_>(value)) {
    return {.kind = Kind::Integer, .integer = value.cast<std::int64_t>()};
  }
  if (py::isinstance<py::float_>(value)) {
    return {.kind = Kind::Real, .real = value.cast<double>()};
  }
  if (py::isinstance<py::str>(value)) {
    return {.kind = Kind::Text, .text = value.cast<std::string>()};
  }
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    return {.kind = Kind::List, .items = toValues(py::reinterpret_borrow<py::iterable>(value))};
  }
  raise<InvalidArgument>(
      "{} is no argument of an option; expected a number, a text, a list, an "
      "enumerator or None",
      py::repr(value).cast<std::string>());
}

void bindOptions(py::module_& m) {
  py::class_<OptionName>(m, "Name", "An enumerator as an argument of an option: OutputMode.All.")
      .def(py::init([](std::string text) { return OptionName{std::move(text)}; }), py::arg("text"))
      .def_readonly("text", &OptionName::text);
  py::class_<OptionCall>(m, "Call", "A call as an argument of an option: Stage('A').device(1).")
      .def(py::init([](std::string name, py::list arguments, py::list then) {
             return OptionCall{std::move(name), std::move(arguments), std::move(then)};
           }),
           py::arg("name"),
           py::arg("arguments") = py::list(),
           py::arg("then") = py::list())
      .def("__repr__", [](const OptionCall& call) { return callValue(call).str(); });
  py::class_<Options>(m, "Options", "How a model is run; see sluice.Options.")
      .def(py::init<>())
      .def_static("defaults", &Options::defaults)
      .def_static("settings", &settingNames, "The names of all setters.")
      .def("apply", &apply, py::arg("name"), "Calls a setter by its name.")
      .def("text", &printed, py::arg("name"), "The value as the arguments of its setter.")
      .def(
          "load_file",
          [](Options& self, const std::string& path) { self.loadFromFile(path); },
          py::arg("path"))
      .def(
          "load_json",
          [](Options& self, const std::string& text, const std::string& source) {
            self.loadFromJson(text, source);
          },
          py::arg("text"),
          py::arg("source") = "JSON")
      .def("from_environment", &Options::fromEnvironment)
      .def("clone", &Options::clone)
      .def("freeze", &Options::freeze)
      .def_property_readonly("frozen", &Options::isFrozen)
      .def("str", &Options::str)
      .def_property_readonly("num_processes",
                             [](const Options& o) { return o.distributed.numProcesses(); })
      .def_property_readonly("process_id",
                             [](const Options& o) { return o.distributed.processId(); });
}

}  // namespace sluice::python
