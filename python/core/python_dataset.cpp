#include "python/core/python_dataset.h"

#include <thread>

#include <fmt/format.h>

#include "python/core/interpreter_calls.h"
#include "python/core/python_error.h"

namespace sluice::python {
namespace {

thread_local int callsOfThisThread = 0;

struct Call {
  Call() : allowed(interpreterCalls().begin()) { ++callsOfThisThread; }
  ~Call() {
    --callsOfThisThread;
    if (allowed) {
      interpreterCalls().end();
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const bool allowed;
};

/// Says where it happened, in versions of Python that have notes.
void addNote(const py::error_already_set& error, std::int64_t element) {
  if (py::hasattr(error.value(), "add_note")) {
    error.value().attr("add_note")(fmt::format("in element {} of a dataset of Sluice", element));
  }
}

std::optional<data::Sample> elementOf(const py::handle& iterator) {
  const auto item = py::reinterpret_steal<py::object>(PyIter_Next(iterator.ptr()));
  if (!item) {
    if (PyErr_Occurred() != nullptr) {
      throw py::error_already_set();
    }
    return std::nullopt;
  }
  return item.cast<data::Sample>();
}

}  // namespace

void endOutsideOfReaders(std::function<void()> end) {
  if (callsOfThisThread > 0) {
    std::thread(std::move(end)).detach();
    return;
  }
  const Unlocked release;
  end();
}

std::optional<data::Sample> PythonDataset::next() {
  const Call call;
  if (!call.allowed) {
    return std::nullopt;
  }
  const py::gil_scoped_acquire gil;
  try {
    if (iterator_ == nullptr) {
      iterator_ = keep(py::handle(open_.get())());
    }
    std::optional<data::Sample> sample = elementOf(iterator_.get());
    if (PyErr_CheckSignals() != 0) {  // an iterator in C looks for none
      throw py::error_already_set();
    }
    ++count_;
    return sample;
  } catch (const py::error_already_set& error) {
    addNote(error, count_);
    throw PythonError(error);
  }
}

void PythonDataset::restart() {
  iterator_.reset();
  count_ = 0;
}

}  // namespace sluice::python
