#include "sluice/base/workers.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"

namespace sluice {

struct Workers::Impl {
  std::mutex mutex;  // guards generation, running, stop, failure
  std::condition_variable wake;
  std::condition_variable finished;
  std::uint64_t generation = 0;
  int running = 0;
  bool stop = false;
  std::exception_ptr failure;
  std::atomic<std::int64_t> next{0};
  std::int64_t count = 0;
  const FunctionRef<void(std::int64_t)>* tile = nullptr;
  std::vector<std::thread> threads;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  /// Also when the last of the threads could not be started.
  ~Impl() {
    {
      const std::scoped_lock lock(mutex);
      stop = true;
    }
    wake.notify_all();
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

  void runTiles() {
    try {
      for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
        (*tile)(i);
      }
    } catch (...) {
      next.store(count);  // the other threads stop after their current tile
      const std::scoped_lock lock(mutex);
      if (!failure) {
        failure = std::current_exception();
      }
    }
  }

  void threadLoop() {
    std::uint64_t seen = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stop || generation != seen; });
        if (stop) {
          return;
        }
        seen = generation;
      }
      runTiles();
      const std::scoped_lock lock(mutex);
      if (--running == 0) {
        finished.notify_one();
      }
    }
  }
};

Workers::Workers(int threads, const std::function<void(int)>& onStart) : threads_(threads) {
  if (threads < 1) {
    raise<InvalidArgument>("a team of workers needs at least 1 thread, got {}", threads);
  }
  impl_ = std::make_unique<Impl>();
  for (int i = 1; i < threads; ++i) {
    impl_->threads.push_back(startThread(fmt::format("thread {} of a team of {}", i + 1, threads),
                                         [impl = impl_.get(), onStart, i] {
                                           if (onStart) {
                                             onStart(i);
                                           }
                                           impl->threadLoop();
                                         }));
  }
}

Workers::~Workers() = default;

void Workers::parallelFor(std::int64_t count, FunctionRef<void(std::int64_t)> tile) {
  if (threads_ == 1 || count <= 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      tile(i);
    }
    return;
  }
  Impl& impl = *impl_;
  {
    const std::scoped_lock lock(impl.mutex);
    impl.tile = &tile;
    impl.count = count;
    impl.next.store(0);
    impl.running = threads_ - 1;
    impl.failure = nullptr;
    ++impl.generation;
  }
  impl.wake.notify_all();
  impl.runTiles();
  std::unique_lock lock(impl.mutex);
  impl.finished.wait(lock, [&] { return impl.running == 0; });
  if (impl.failure) {
    std::rethrow_exception(impl.failure);
  }
}

}  // namespace sluice
