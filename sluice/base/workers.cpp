#include "sluice/base/workers.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"
#include "sluice/base/spin.h"

namespace sluice {
namespace {

/// A job's number in the upper half, the next tile in the lower one: who takes tiles of a job
/// cannot take tiles of another by mistake.
using Ticket = std::uint64_t;
constexpr std::uint32_t kClosed = UINT32_MAX;  // the next tile of a job that is being written
constexpr std::int64_t kMostTiles = std::int64_t{1} << 30;  // of one job

constexpr std::uint32_t jobOf(Ticket ticket) {
  return static_cast<std::uint32_t>(ticket >> 32U);
}
constexpr std::uint32_t nextOf(Ticket ticket) {
  return static_cast<std::uint32_t>(ticket);
}
constexpr Ticket ticketOf(std::uint32_t job, std::uint32_t next) {
  return Ticket{job} << 32U | next;
}

}  // namespace

struct Workers::Impl {
  using Tile = FunctionRef<void(std::int64_t)>;

  explicit Impl(int teamSize) : parts(2 * static_cast<std::uint32_t>(teamSize)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  /// Also when the last of the threads could not be started.
  ~Impl() {
    stop.store(true);
    wake(static_cast<int>(threads.size()));
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

  bool hasJobAfter(std::uint32_t seen) const {
    const Ticket now = ticket.load();
    return (jobOf(now) != seen && nextOf(now) != kClosed) || stop.load();
  }

  /// Takes tiles of a job until there are none left: several at a time while there are many.
  void takePart(std::uint32_t job) {
    Ticket now = ticket.load();
    for (;;) {
      const std::uint32_t next = nextOf(now);
      const std::uint32_t all = count.load(std::memory_order_acquire);
      const Tile* const call = tile.load(std::memory_order_acquire);
      if (jobOf(now) != job || next >= all) {
        return;
      }
      const std::uint32_t taken = std::max(1U, (all - next) / parts);
      // If it succeeds, the job was this one all the while, and so were count and tile.
      if (!ticket.compare_exchange_weak(now, now + taken)) {
        continue;
      }
      runTiles(*call, next, taken);
      if (done.fetch_add(taken) + taken == all && callerSleeps.load()) {
        done.notify_one();
      }
      now = ticket.load();
    }
  }

  void runTiles(const Tile& call, std::uint32_t first, std::uint32_t number) {
    try {
      for (std::uint32_t i = first; i < first + number && !failed.load(std::memory_order_relaxed);
           ++i) {
        call(i);
      }
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!failed.exchange(true)) {  // the other threads stop after their current tile
        failure = std::current_exception();
      }
    }
  }

  void threadLoop() {
    const Running running;
    std::uint32_t seen = 0;
    for (;;) {
      const auto found = [&] { return hasJobAfter(seen); };
      if (!spinUntil(found)) {
        const Sleeping asleep;
        sleepers.fetch_add(1);
        for (std::uint32_t now = epoch.load(); !found(); now = epoch.load()) {
          epoch.wait(now);
        }
        sleepers.fetch_sub(1);
      }
      if (stop.load()) {
        return;
      }
      seen = jobOf(ticket.load());
      takePart(seen);
    }
  }

  /// Wakes sleeping threads so that so many are awake in all, if there are so many.
  void wake(int wanted) {
    const int asleep = sleepers.load();
    const int missing = wanted - (static_cast<int>(threads.size()) - asleep);
    if (asleep == 0 || missing <= 0) {
      return;
    }
    epoch.fetch_add(1);
    constexpr int kFew = 3;  // each is a call of the system
    if (missing > kFew) {
      epoch.notify_all();
      return;
    }
    for (int i = 0; i < missing; ++i) {
      epoch.notify_one();
    }
  }

  void run(std::uint32_t tiles, const Tile& call) {
    const std::uint32_t job = jobOf(ticket.load()) + 1;
    ticket.store(ticketOf(job, kClosed));  // from here on nobody takes tiles of the job before
    tile.store(&call, std::memory_order_release);
    count.store(tiles, std::memory_order_release);
    done.store(0);
    failed.store(false);
    ticket.store(ticketOf(job, 0));
    wake(std::min({static_cast<int>(threads.size()), static_cast<int>(tiles) - 1, helpers()}));
    takePart(job);
    const auto isDone = [&] { return done.load() == tiles; };
    if (!spinUntil(isDone)) {
      callerSleeps.store(true);
      for (std::uint32_t now = done.load(); now != tiles; now = done.load()) {
        done.wait(now);
      }
      callerSleeps.store(false);
    }
    if (failed.load()) {
      std::rethrow_exception(std::exchange(failure, nullptr));
    }
  }

  /// More of them than cores would only take turns with the caller.
  static int helpers() { return availableCores() - 1; }

  const std::uint32_t parts;  // in which the rest of a job is taken, at least
  alignas(64) std::atomic<Ticket> ticket{ticketOf(0, 0)};
  std::atomic<const Tile*> tile{nullptr};
  std::atomic<std::uint32_t> count{0};
  alignas(64) std::atomic<std::uint32_t> done{0};  // tiles of the job
  std::atomic<bool> callerSleeps{false};
  std::atomic<bool> failed{false};  // a tile of the job threw
  std::mutex mutex;                 // guards `failure` while the job runs
  std::exception_ptr failure;
  alignas(64) std::atomic<std::uint32_t> epoch{0};  // what sleeping threads wait for
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
};

Workers::Workers(int threads, const std::function<void(int)>& onStart) : threads_(threads) {
  if (threads < 1) {
    raise<InvalidArgument>("a team of workers needs at least 1 thread, got {}", threads);
  }
  impl_ = std::make_unique<Impl>(threads);
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
  for (std::int64_t first = 0; first < count; first += kMostTiles) {
    const auto shifted = [&](std::int64_t i) { tile(first + i); };
    const FunctionRef<void(std::int64_t)> part =
        first == 0 ? tile : FunctionRef<void(std::int64_t)>(shifted);
    impl_->run(static_cast<std::uint32_t>(std::min(count - first, kMostTiles)), part);
  }
}

}  // namespace sluice
