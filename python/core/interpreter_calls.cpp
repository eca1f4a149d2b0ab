#include "python/core/interpreter_calls.h"

#include <chrono>

#include <unistd.h>

#include "python/core/bindings.h"

namespace sluice::python {
namespace {

void beginOrStay() {
  while (!interpreterCalls().begin()) {
    pause();  // until the process is gone
  }
}

}  // namespace

bool InterpreterCalls::begin() {
  if ((state_.fetch_add(1) & kEnded) == 0 || ending_.load() == std::this_thread::get_id()) {
    return true;
  }
  end();
  return false;
}

void InterpreterCalls::endAll() {
  constexpr std::chrono::seconds kPatience{2};  // a function may wait for something for ever
  constexpr std::chrono::milliseconds kBetween{1};
  ending_.store(std::this_thread::get_id());
  const auto until = std::chrono::steady_clock::now() + kPatience;
  state_.fetch_or(kEnded);
  while (state_.load() != kEnded && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kBetween);
  }
}

InterpreterCalls& interpreterCalls() {
  static auto* const all = new InterpreterCalls;
  return *all;
}

Unlocked::Unlocked() : state_(PyEval_SaveThread()) {}

Unlocked::~Unlocked() {
  beginOrStay();
  PyEval_RestoreThread(state_);
  interpreterCalls().end();
}

bool Locked::begin() {
  beginOrStay();
  return true;
}

Locked::~Locked() {
  interpreterCalls().end();
}

bool interpreterEnds() {
  return interpreterCalls().ended();
}

void endCallsAtExit() {
  py::module_::import("atexit").attr("register")(py::cpp_function([] {
    PyThreadState* const state = PyEval_SaveThread();
    interpreterCalls().endAll();
    PyEval_RestoreThread(state);
  }));
}

}  // namespace sluice::python
