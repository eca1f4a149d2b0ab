// What the files of the Python module share. Each file binds one subject; module.cpp calls them
// all.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "sluice/nn/tensor.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::python {

namespace py = pybind11;

void bindErrors(py::module_& m);
void bindTensors(py::module_& m);
void bindTrace(py::module_& m);
void bindFunctions(py::module_& m);
void bindModules(py::module_& m);
void bindOptions(py::module_& m);
void bindOptimizers(py::module_& m);
void bindModels(py::module_& m);
void bindDeviceTensors(py::module_& m);
void bindQueues(py::module_& m);
void bindUpdateRules(py::module_& m);
void bindLoops(py::module_& m);
void bindRuntime(py::module_& m);
void bindSchedules(py::module_& m);
void bindOnnxOps(py::module_& m);
void bindBuilder(py::module_& m);
void bindGraphSessions(py::module_& m);

/// NumPy's name of an element type: "float32", "bfloat16", "bool".
std::string_view dtypeName(DType dtype);
/// Throws InvalidArgument, which lists the names.
DType parseDtype(std::string_view name);
py::tuple shapeTuple(const Shape& shape);

/// Gives up the interpreter's lock while it lives. A thread that wants the lock back when the
/// interpreter is ending stays where it is: Python would end it in the middle of C++ code, which
/// ends the process.
class Unlocked {
 public:
  Unlocked();
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

/// Calls that may wait for another thread's step give up the interpreter's lock, which that step
/// may need.
template <class F>
auto unlocked(F function) {
  const Unlocked release;
  return function();
}

/// Has the interpreter's lock while it lives; a thread that wants it when the interpreter is ending
/// stays where it is, for the same reason. The end of the interpreter waits for a while for threads
/// that have it.
class Locked {
 public:
  Locked() = default;
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  bool begun_ = begin();
  py::gil_scoped_acquire gil_;

  static bool begin();
};

/// Whether the interpreter is about to end: no thread of the library may call it from then on.
bool interpreterEnds();
/// Arranges that the interpreter waits at its end for calls that have begun, though not for ever.
void endCallsAtExit();

/// Keeps a Python object alive for C++ code that may drop it in any thread, with or without the
/// interpreter's lock, and even after the interpreter has ended.
std::shared_ptr<PyObject> keep(py::object object);

}  // namespace sluice::python
