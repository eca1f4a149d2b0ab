#include "python/core/python_dataset.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "python/core/python_error.h"

namespace sluice::python {
namespace {

/// What threads do that need the interpreter's lock: calls of iterators, and returns from C++. A
/// thread that asks for the lock once the interpreter ends is killed, in the middle of C++ code, so
/// none may begin then, but in the thread that ends it.
class Calls {
 public:
  /// Whether a call may begin. No lock: a forked process may begin with it taken.
  bool begin() {
    if ((state_.fetch_add(1) & kEnded) == 0 || ending_.load() == std::this_thread::get_id()) {
      return true;
    }
    end();
    return false;
  }
  void end() { state_.fetch_sub(1); }
  void endAll() {
    constexpr std::chrono::seconds kPatience{2};  // an iterator may wait for something for ever
    constexpr std::chrono::milliseconds kBetween{1};
    ending_.store(std::this_thread::get_id());
    const auto until = std::chrono::steady_clock::now() + kPatience;
    for (state_.fetch_or(kEnded);
         state_.load() != kEnded && std::chrono::steady_clock::now() < until;) {
      std::this_thread::sleep_for(kBetween);
    }
  }
  bool ended() const { return (state_.load() & kEnded) != 0; }

 private:
  static constexpr std::uint32_t kEnded = 1U << 31U;
  std::atomic<std::uint32_t> state_{0};  // calls that are under way, and whether all must end
  std::atomic<std::thread::id> ending_{};
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

Unlocked::Unlocked() : state_(PyEval_SaveThread()) {}

Unlocked::~Unlocked() {
  while (!calls().begin()) {
    pause();  // until the process is gone
  }
  PyEval_RestoreThread(state_);
  calls().end();
}

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

bool interpreterEnds() {
  return calls().ended();
}

void endCallsAtExit() {
  py::module_::import("atexit").attr("register")(py::cpp_function([] {
    PyThreadState* const state = PyEval_SaveThread();
    calls().endAll();
    PyEval_RestoreThread(state);
  }));
}

}  // namespace sluice::python
