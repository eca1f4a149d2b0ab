// Prefetcher: runs a producer in a thread of its own and keeps up to `depth` of its batches ready.
// Batches arrive in the order they were made; an error of the producer arrives behind those made
// before it, and again at every later take.
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

#include "sluice/data/batch.h"

namespace sluice::data {

/// What follows when the producer has nothing more, which it says with an empty result.
enum class AtEnd : std::uint8_t {
  Stop,     ///< nothing
  Pause,    ///< it is asked again once somebody waits for more
  Continue  ///< it is asked again at once
};

class Prefetcher {
 public:
  using Producer = std::function<std::optional<Batch>()>;

  /// Starts at once. Throws InvalidArgument unless `depth` is positive.
  Prefetcher(Producer producer, std::int64_t depth, AtEnd atEnd);
  /// Waits for the call of the producer that is under way.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next batch, or nothing once per end (with AtEnd::Stop: from the end on). Waits. Throws the
  /// producer's error, or InvalidArgument once closed.
  std::optional<Batch> take();
  /// Until take would not wait; false: not within this time (0: any). Throws Cancelled between
  /// interrupt() and resume().
  bool await(std::chrono::milliseconds atMost);
  /// Whoever waits in take, now or later, gets an error.
  void close();
  /// The same, with Cancelled, until resume().
  void interrupt();
  void resume();
  /// Batches that are ready.
  std::int64_t ready() const;

 private:
  struct Item {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };
  void loop();
  /// Until there is room, and behind an end until somebody wants more. False: stop.
  bool awaitRoom();
  void requireGoing() const;

  Producer producer_;
  std::size_t depth_;
  AtEnd atEnd_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Item>> items_;
  bool paused_ = false;  // behind an end
  bool closed_ = false;
  bool interrupted_ = false;
  std::thread thread_;
};

}  // namespace sluice::data
