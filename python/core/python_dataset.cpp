#include "python/core/python_dataset.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "python/core/python_error.h"

namespace sluice::python {
namespace {

/// The calls of iterators that are under way. A thread that asks for the interpreter's lock once
/// the interpreter ends is killed, in the middle of C++ code, so none may begin then.
class Calls {
 public:
  /// Whether a call may begin.
  bool begin() {
    const std::scoped_lock lock(mutex_);
    running_ += ended_ ? 0 : 1;
    return !ended_;
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    --running_;
    changed_.notify_all();
  }
  void endAll() {
    constexpr std::chrono::seconds kPatience{2};  // an iterator may wait for something for ever
    std::unique_lock lock(mutex_);
    ended_ = true;
    changed_.wait_for(lock, kPatience, [this] { return running_ == 0; });
  }
  bool ended() {
    const std::scoped_lock lock(mutex_);
    return ended_;
  }

 private:
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  int running_ = 0;
  bool ended_ = false;
};

/// Never destroyed: threads may outlive the end of main.
Calls& calls() {
  static auto* const all = new Calls;
  return *all;
}

thread_local int callsOfThisThread = 0;

struct Call {
  Call() : allowed(calls().begin()) { ++callsOfThisThread; }
  ~Call() {
    --callsOfThisThread;
    if (allowed) {
      calls().end();
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
  const py::gil_scoped_release release;
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

bool interpreterEnds() {
  return calls().ended();
}

void endCallsAtExit() {
  py::module_::import("atexit").attr("register")(py::cpp_function([] {
    const py::gil_scoped_release release;
    calls().endAll();
  }));
}

}  // namespace sluice::python
