// An exception of Python that passes through threads of the library, which know only Error.
#pragma once

#include "python/core/bindings.h"
#include "sluice/base/error.h"

namespace sluice::python {

/// In Python it becomes the original exception again, each time it is thrown.
class PythonError : public Error {
 public:
  /// Needs the interpreter's lock.
  explicit PythonError(const py::error_already_set& error);

  /// Sets Python's error: a copy of the exception, with the traceback up to here. An exception
  /// gathers the frames of all that it passes, and one that the library keeps would keep them
  /// alive.
  void restore() const;

 private:
  std::shared_ptr<PyObject> value_;
  std::shared_ptr<PyObject> trace_;  // null: none
};

}  // namespace sluice::python
