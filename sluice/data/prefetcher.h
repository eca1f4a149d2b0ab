// Prefetcher: runs a producer in its own thread and keeps up to `depth` of its batches ready.
// take() returns batches in the order in which they were made. If the producer throws, take() first
// returns the batches made before and then throws that error, again at every later call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "sluice/data/dataset.h"

namespace sluice::data {

/// What happens after the producer returns nullopt, which means that it has nothing more.
enum class AtEnd : std::uint8_t {
  Stop,     ///< it is not called again
  Pause,    ///< it is called again once take() waits for more
  Continue  ///< it is called again immediately
};

class Prefetcher {
 public:
  using Producer = std::function<std::optional<Batch>()>;

  /// Starts the thread. Throws InvalidArgument unless `depth` is positive.
  Prefetcher(Producer producer, std::int64_t depth, AtEnd atEnd);
  /// Waits for the producer's running call, if there is one.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Waits for the next batch and returns it. Returns nullopt once per end of the producer, with
  /// AtEnd::Stop at every call from then on. Throws the producer's error, and InvalidArgument once
  /// closed.
  std::optional<Batch> take();
  /// Waits until take() would not wait. Returns false if this takes longer than `atMost` (0: no
  /// limit). Throws Cancelled between interrupt() and resume().
  bool await(std::chrono::milliseconds atMost);
  /// Makes take() throw, in threads that wait already and in later calls.
  void close();
  /// The same with Cancelled, until resume().
  void interrupt();
  void resume();
  /// The number of batches that are ready.
  std::int64_t ready() const;

 private:
  struct Item {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };
  void loop();
  /// Waits until there is room and, after an end, until take() wants more. Returns false if the
  /// thread must stop.
  bool awaitRoom();
  void requireGoing() const;

  Producer producer_;
  std::size_t depth_;
  AtEnd atEnd_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Item>> items_;
  bool paused_ = false;  // after an end
  bool closed_ = false;
  bool interrupted_ = false;
  std::thread thread_;
};

}  // namespace sluice::data
