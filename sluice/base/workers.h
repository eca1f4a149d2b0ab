// A fixed team of threads that runs the tiles of one kernel at a time. The caller takes part, so a
// team of one has no threads at all. Which thread runs which tile is not fixed and must not matter:
// tiles write disjoint outputs (rule R3). How many threads take part depends on the tiles and on
// the cores of the machine. Idle workers look for the next kernel for a moment (spin.h), then
// sleep.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "sluice/base/function_ref.h"

namespace sluice {

class Workers {
 public:
  /// `onStart` runs first in every thread of the team except the caller's.
  explicit Workers(int threads, const std::function<void(int)>& onStart = {});
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return threads_; }

  /// Calls tile(i) for i in [0, count) and returns when all calls are done. If a tile throws, tiles
  /// that have not started are skipped and the first exception is rethrown here. One call at a
  /// time; not re-entrant.
  void parallelFor(std::int64_t count, FunctionRef<void(std::int64_t)> tile);

 private:
  struct Impl;
  int threads_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
