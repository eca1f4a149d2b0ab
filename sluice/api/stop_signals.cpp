#include "sluice/api/stop_signals.h"

#include <csignal>

namespace sluice {
namespace {

volatile std::sig_atomic_t signalSeen = 0;  // NOLINT: a signal handler can reach nothing else

void noteSignal(int number) {
  signalSeen = number;
  std::signal(SIGINT, SIG_DFL);  // the next one, of either kind, ends the program
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals(bool active) : active_(active) {
  if (active_) {
    signalSeen = 0;
    previousInterrupt_ = std::signal(SIGINT, noteSignal);
    previousTerminate_ = std::signal(SIGTERM, noteSignal);
  }
}

StopSignals::~StopSignals() {
  if (active_) {
    std::signal(SIGINT, previousInterrupt_);
    std::signal(SIGTERM, previousTerminate_);
  }
}

int StopSignals::seen() const {
  return active_ ? signalSeen : 0;
}

}  // namespace sluice
