#include "python/core/python_error.h"

namespace sluice::python {
namespace {

/// Not every class of exceptions can be copied.
py::object copied(const py::handle& value) {
  const py::object copy = py::module_::import("copy").attr("copy")(value);
  if (!py::type::of(copy).is(py::type::of(value)) || copy.is(value)) {
    throw py::type_error("the copy is something else");
  }
  for (const char* name : {"__cause__", "__context__", "__suppress_context__"}) {
    copy.attr(name) = value.attr(name);
  }
  return copy;
}

}  // namespace

PythonError::PythonError(const py::error_already_set& error)
    : Error(error.what(), "PythonError"), value_(keep(error.value())) {
  if (error.trace()) {
    trace_ = keep(error.trace());
  }
  PyException_SetTraceback(value_.get(), Py_None);
}

void PythonError::restore() const {
  try {
    const py::object copy = copied(value_.get());
    if (trace_ != nullptr) {
      PyException_SetTraceback(copy.ptr(), trace_.get());
    }
    PyErr_SetObject(py::type::of(copy).ptr(), copy.ptr());
  } catch (const std::exception&) {
    PyErr_Clear();
    const py::object type = py::module_::import("sluice._core").attr("Error");
    PyErr_SetString(type.ptr(), what());
  }
}

}  // namespace sluice::python
