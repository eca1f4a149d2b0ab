// StopSignals: Ctrl-C and SIGTERM as requests that a loop looks at between its steps, so that it
// can end in order. `fit` uses it; a loop of your own does it so:
//
//   const StopSignals stop;
//   for (... && stop.seen() == 0; ...) { model.run(...); }
//   return stop.seen() == 0 ? 0 : 128 + stop.seen();
#pragma once

namespace sluice {

/// Catches both signals while it lives, for the whole process: at most one at a time. The first
/// signal is noted; a second one ends the program as if there were no StopSignals.
class [[nodiscard]] StopSignals {
 public:
  /// An inactive one catches nothing.
  [[nodiscard]] explicit StopSignals(bool active = true);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// SIGINT, SIGTERM, or 0 as long as none came.
  int seen() const;

 private:
  using Handler = void (*)(int);

  bool active_;
  Handler previousInterrupt_ = nullptr;
  Handler previousTerminate_ = nullptr;
};

}  // namespace sluice
