#include "python/core/interruptible.h"

#include <optional>

#include "python/core/bindings.h"
#include "sluice/base/wait_watch.h"

namespace sluice::python {
namespace {

bool isMainThread() {
  const py::object main = py::module_::import("threading").attr("main_thread")();
  return main.attr("ident").cast<unsigned long>() == PyThread_get_thread_ident();
}

/// What a signal handler raised, if one is to be run and raises something; in the main thread only.
std::optional<py::error_already_set> raisedBySignal() {
  const Locked gil;
  if (PyErr_CheckSignals() == 0) {
    return std::nullopt;
  }
  return py::error_already_set();
}

}  // namespace

void runInterruptibly(FunctionRef<void()> work, FunctionRef<void()> cancel) {
  if (!isMainThread()) {
    const Unlocked release;
    work();
    return;
  }
  std::optional<py::error_already_set> raised;
  try {
    const Unlocked release;
    const WaitWatch watch([&] {
      if (!raised) {
        raised = raisedBySignal();
      }
      if (raised) {
        cancel();  // again if need be: there is nothing to cancel before the work has its turn
      }
    });
    work();
  } catch (...) {
    if (!raised) {
      throw;
    }
  }
  if (raised) {
    throw *std::move(raised);
  }
}

}  // namespace sluice::python
