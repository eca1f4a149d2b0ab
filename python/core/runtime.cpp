// What belongs to the process: versions, devices, the log.
#include "cli/commands.h"
#include "python/core/bindings.h"
#include "sluice/api/devices.h"
#include "sluice/base/console.h"
#include "sluice/base/log.h"
#include "sluice/base/version.h"
#include "sluice/ops/custom_op.h"
#include "sluice/profile/channel.h"

namespace sluice::python {
namespace {

/// Ctrl-C ends a compilation of the main thread between two phases.
void checkSignals() {
  const Locked gil;
  if (PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}

/// `python -m sluice`: the command line.
int runCommandLine(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  const Unlocked release;
  return cli::runSluice(static_cast<int>(pointers.size()), pointers.data());
}

/// Text goes to a Python function; None: to stderr.
void setConsoleFunction(const py::object& write, bool redraws) {
  Console console{.redraws = redraws, .betweenPhases = &checkSignals};
  if (!write.is_none()) {
    console.write = [kept = keep(write)](std::string_view text) {
      if (interpreterEnds()) {
        return;
      }
      const Locked gil;
      try {
        py::handle(kept.get())(std::string(text));
      } catch (py::error_already_set& error) {  // a line that cannot be written ends no step
        error.discard_as_unraisable("sluice: writing to the console");
      }
    };
  }
  setConsole(std::move(console));
}

/// A trace point that ends when Python says so.
struct OpenTracepoint {
  std::optional<profiling::Tracepoint> point;
};

void bindTracepoints(py::module_& m) {
  py::class_<OpenTracepoint>(m, "Tracepoint")
      .def(py::init([](std::string channel, std::string name) {
             auto open = std::make_unique<OpenTracepoint>();
             open->point.emplace(std::move(channel), std::move(name));
             return open;
           }),
           py::arg("channel"),
           py::arg("name"))
      .def("end", [](OpenTracepoint& open) { open.point.reset(); });
  m.def("record_tracepoints", &profiling::record, py::arg("on"));
  m.def(
      "write_host_trace",
      [](const std::string& file) { profiling::writeHostTrace(file); },
      py::arg("file"),
      py::call_guard<Unlocked>());
}

}  // namespace

void bindRuntime(py::module_& m) {
  bindTracepoints(m);
  m.def("version", [] { return std::string(sluice::version()); });
  m.def("devices", [] {
    py::list result;
    for (const device::DeviceInfo& info : availableDevices()) {
      result.append(py::make_tuple(info.kind, info.description));
    }
    return result;
  });
  m.def(
      "devices_are_available", &devicesAreAvailable, py::arg("count") = 1, py::arg("kind") = "cpu");
  m.def("device_version", &deviceVersion, py::arg("name") = "cpu");
  m.def(
      "set_log_level", [](int level) { log::setLevels(level); }, py::arg("level"));
  m.def(
      "set_log_level", [](const std::string& text) { log::setLevels(text); }, py::arg("text"));
  m.def(
      "log",
      [](int level, const std::string& text) {
        log::write("python", static_cast<log::Level>(level), text);
      },
      py::arg("level"),
      py::arg("text"));
  m.def("set_console",
        &setConsoleFunction,
        py::arg("write") = py::none(),
        py::arg("redraws") = false);
  setConsoleFunction(py::none(), false);
  m.def("command_line", &runCommandLine, py::arg("arguments"));
  m.def(
      "load_custom_ops",
      [](const std::string& path) { return ops::loadCustomOps(path); },
      py::arg("path"));
}

}  // namespace sluice::python
