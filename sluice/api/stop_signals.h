// StopSignals: turns Ctrl-C, SIGTERM and SIGHUP into requests that a loop checks between its steps,
// so that it can end cleanly. `fit` uses it; a loop of your own uses it like this:
//
//   const StopSignals stop;
//   for (... && stop.seen() == 0; ...) { model.run(...); }
//   return stop.seen() == 0 ? 0 : 128 + stop.seen();
#pragma once

#pragma GCC visibility push(default)

namespace sluice {

/// Catches these signals for the whole process while it lives; there may be at most one at a time.
/// It does not catch a SIGHUP that the program ignores, as under nohup. The first signal is noted;
/// a second one ends the program as if there were no StopSignals.
class [[nodiscard]] StopSignals {
 public:
  /// An inactive object catches nothing.
  [[nodiscard]] explicit StopSignals(bool active = true);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// SIGINT, SIGTERM, SIGHUP, or 0 as long as there was no signal.
  int seen() const;

 private:
  using Handler = void (*)(int);

  bool active_;
  Handler previousInterrupt_ = nullptr;
  Handler previousTerminate_ = nullptr;
};

}  // namespace sluice

#pragma GCC visibility pop
