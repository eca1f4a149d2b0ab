// The library's errors as Python's. Each kind is a sluice.Error and, where Python has a word for
// it, that as well: code that catches ValueError works.
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "python/core/bindings.h"
#include "python/core/python_error.h"
#include "sluice/base/error.h"
#include "sluice/base/recoverable_error.h"

namespace sluice::python {
namespace {

struct Kind {
  const char* name;
  const char* base;  ///< the kind that it is a special case of
  PyObject** also;   ///< the built-in exception that it is besides; null: none
  const char* doc;
};

const std::array kKinds{
    Kind{"InvalidArgument",
         "Error",
         &PyExc_ValueError,
         "A value given by the caller cannot be used: its shape, type, name or range is wrong."},
    Kind{"Unsupported",
         "Error",
         &PyExc_NotImplementedError,
         "The request is sound, but this build or device cannot do it."},
    Kind{"OutOfMemory",
         "Error",
         &PyExc_MemoryError,
         "The plan does not fit the memory of a device."},
    Kind{"FileError",
         "Error",
         &PyExc_OSError,
         "A file could not be read or written, or does not hold what it should."},
    Kind{"ConfigFileError", "Error", nullptr, "A file of settings could not be read."},
    Kind{"Cancelled", "Error", nullptr, "A call was cancelled."},
    Kind{"DeviceError", "Error", nullptr, "A device failed or could not be acquired."},
    Kind{"RecoverableError",
         "DeviceError",
         nullptr,
         "Something outside of the model failed; the run can continue once it is repaired."},
    Kind{"UnrecoverableError", "DeviceError", nullptr, "A device failed for good."},
    Kind{"InternalError", "Error", nullptr, "A bug in Sluice."},
};

PyObject* newKind(py::module_& m, const Kind& kind) {
  const py::object base = m.attr(kind.base);
  const py::tuple bases =
      kind.also == nullptr ? py::make_tuple(base)
                           : py::make_tuple(base, py::reinterpret_borrow<py::object>(*kind.also));
  const std::string full = std::string("sluice.") + kind.name;
  return PyErr_NewExceptionWithDoc(full.c_str(), kind.doc, bases.ptr(), nullptr);
}

/// The library names its classes and functions as C++ does; a user of Python reads Python's names.
std::string spelledForPython(std::string text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kWords{{
      {"Options::", "Options."},
      {"Model::", "model."},
      {"Block::", "Block."},
      {"Phase::", "Phase."},
      {"Recomputation::", "Recomputation."},
      {"GradientTensorTrackingMethod::", "GradientTensorTrackingMethod."},
      {"VirtualGraphMode::", "VirtualGraphMode."},
      {"identityLoss", "identity_loss"},
      {"(true)", "(True)"},
      {"(false)", "(False)"},
  }};
  for (const auto& [from, to] : kWords) {
    for (std::size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

/// What str() of the error gives. The type is not repeated: Python prints the class before it.
std::string textOf(const Error& error) {
  const std::string place = error.location().empty() ? "" : " (in " + error.location() + ")";
  return spelledForPython(error.message() + place);
}

/// Sets the Python error for one of ours. The classes live as long as the interpreter.
void raiseInPython(const Error& error) {
  const py::module_ core = py::module_::import("sluice._core");
  const char* name = py::hasattr(core, error.type().c_str()) ? error.type().c_str() : "Error";
  const py::object type = core.attr(name);
  const py::object value = type(textOf(error));
  value.attr("message") = spelledForPython(error.message());
  value.attr("type") = error.type();
  value.attr("location") = error.location();
  if (const auto* recoverable = dynamic_cast<const RecoverableError*>(&error)) {
    static constexpr std::array kActions{"DEVICE_RESET", "PARTITION_RESET", "FULL_RESET"};
    value.attr("recovery_action") =
        kActions.at(static_cast<std::size_t>(recoverable->recoveryAction()));
  }
  PyErr_SetObject(type.ptr(), value.ptr());
}

}  // namespace

void bindErrors(py::module_& m) {
  m.attr("Error") = py::reinterpret_steal<py::object>(PyErr_NewExceptionWithDoc(
      "sluice.Error",
      "Every error of Sluice. It has the attributes message, type and location.",
      PyExc_RuntimeError,
      nullptr));
  for (const Kind& kind : kKinds) {
    m.attr(kind.name) = py::reinterpret_steal<py::object>(newKind(m, kind));
  }
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) {
        std::rethrow_exception(thrown);
      }
    } catch (const PythonError& error) {
      error.restore();
    } catch (const Error& error) {
      raiseInPython(error);
    }
  });
}

}  // namespace sluice::python
