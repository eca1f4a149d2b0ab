#include "python/core/interruptible.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include <unistd.h>

#include "python/core/bindings.h"

namespace sluice::python {
namespace {

constexpr std::chrono::milliseconds kPatience{50};  // between two looks for signals

/// One thread that runs one piece of work at a time. It is never joined: the process ends it.
class Worker {
 public:
  void start(const std::function<void()>& work) {
    const std::scoped_lock lock(mutex_);
    work_ = &work;
    failure_ = nullptr;
    if (!running_) {
      running_ = true;
      std::thread([this] { serve(); }).detach();
    }
    changed_.notify_all();
  }
  /// Whether the work has ended.
  bool await(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return work_ == nullptr; });
  }
  void await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return work_ == nullptr; });
  }
  std::exception_ptr failure() const { return failure_; }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return work_ != nullptr; });
      const std::function<void()>& work = *work_;
      lock.unlock();
      std::exception_ptr failure;
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      failure_ = failure;
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
  std::exception_ptr failure_;
  bool running_ = false;
};

/// The worker of this process: a forked child has the memory of its parent's, but not the thread.
Worker& worker() {
  static Worker* current = nullptr;
  static pid_t owner = 0;
  if (owner != getpid()) {
    current = new Worker;
    owner = getpid();
  }
  return *current;
}

bool isMainThread() {
  static const auto main =
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  return PyThread_get_thread_ident() == main;
}

bool signalRaises() {
  const py::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

}  // namespace

void runInterruptibly(const std::function<void()>& work, const std::function<void()>& cancel) {
  if (!isMainThread()) {
    const py::gil_scoped_release release;
    work();
    return;
  }
  Worker& helper = worker();
  bool interrupted = false;
  {
    const py::gil_scoped_release release;
    helper.start(work);
    while (!helper.await(kPatience)) {
      if (signalRaises()) {
        interrupted = true;
        cancel();
        helper.await();
        break;
      }
    }
  }
  if (interrupted) {
    throw py::error_already_set();
  }
  if (const std::exception_ptr failure = helper.failure()) {
    std::rethrow_exception(failure);
  }
}

}  // namespace sluice::python
