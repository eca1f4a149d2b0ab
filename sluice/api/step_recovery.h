// StepRecovery: what a model keeps so that a call that failed can be made again: a copy of the
// state, and the calls since that copy was made. Options::recovery asks for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sluice/api/option_types.h"
#include "sluice/api/session.h"

namespace sluice {

class StepRecovery {
 public:
  explicit StepRecovery(const RecoveryOptions& options) : options_(options) {}

  struct Snapshot {
    Session::Values values;
    std::int64_t updates = 0;
    std::int64_t microBatches = 0;
  };
  const RecoveryOptions& options() const { return options_; }
  /// Whether the state is copied at all; if not, the caller goes back to a checkpoint.
  bool copies() const { return options_.every > 0; }
  /// Whether the state is to be copied before the next call. `changes` is another number than after
  /// the last call if the host has changed the state since: calls before that cannot be repeated.
  bool isDue(std::uint64_t changes) const {
    return !snapshot_ || since_ >= options_.every || changes != changes_;
  }
  void take(Snapshot snapshot);
  const std::optional<Snapshot>& snapshot() const { return snapshot_; }
  /// Whether the next call may have to be made again after another one.
  bool isLogged() const { return snapshot_ && since_ + 1 < options_.every; }
  /// Counts a call that has ended; `repeat` makes it again, if it is logged.
  void note(std::function<void()> repeat, std::uint64_t changes);
  /// Something other than the state has changed: the copy is of no use any more.
  void forget() { snapshot_.reset(); }
  /// An error has ended `repeat`: the state is that of an earlier call than the last one.
  void fallBehind(std::uint64_t changes) {
    behind_ = true;
    changes_ = changes;
  }
  /// Whether calls are still to be made again before the next one; not if the host has changed the
  /// state since, which then goes on from there.
  bool isBehind(std::uint64_t changes) const { return behind_ && snapshot_ && changes == changes_; }
  /// Makes the calls since the copy again.
  void repeat() const;

 private:
  RecoveryOptions options_;
  std::optional<Snapshot> snapshot_;
  std::int32_t since_ = 0;     // calls since the copy
  std::uint64_t changes_ = 0;  // when the newest of them had ended
  bool behind_ = false;
  std::vector<std::function<void()>> calls_;
};

/// Where a diagnostic bundle is, for the end of a message; an empty path: it could not be written.
std::string whereToLook(const std::filesystem::path& bundle);

/// Waits before a retry, twice as long as before the one before it; calls `look` now and then,
/// which may throw, and the watch of the calling thread.
void waitForRetry(const RecoveryOptions& options,
                  std::int32_t attempt,
                  const std::function<void()>& look);

}  // namespace sluice
