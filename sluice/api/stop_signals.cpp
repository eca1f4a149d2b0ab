#include <csignal>

#include "sluice/api/fit.h"

namespace sluice {
namespace {

volatile std::sig_atomic_t signalSeen = 0;  // NOLINT: a signal handler can reach nothing else

void noteSignal(int number) {
  signalSeen = number;
  std::signal(SIGINT, SIG_DFL);  // the next one, of any kind, ends the program
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGHUP, SIG_DFL);
}

using SignalHandler = void (*)(int);
SignalHandler previousHangup = SIG_DFL;  // NOLINT: there is one StopSignals at a time

/// A program that nohup has started goes on after its terminal is gone.
void catchHangup() {
  previousHangup = std::signal(SIGHUP, noteSignal);
  if (previousHangup == SIG_IGN) {  // NOLINT: the macro of the system
    std::signal(SIGHUP, SIG_IGN);
  }
}

}  // namespace

StopSignals::StopSignals(bool active) : active_(active) {
  if (active_) {
    signalSeen = 0;
    previousInterrupt_ = std::signal(SIGINT, noteSignal);
    previousTerminate_ = std::signal(SIGTERM, noteSignal);
    catchHangup();
  }
}

StopSignals::~StopSignals() {
  if (active_) {
    std::signal(SIGINT, previousInterrupt_);
    std::signal(SIGTERM, previousTerminate_);
    std::signal(SIGHUP, previousHangup);
  }
}

int StopSignals::seen() const {
  return active_ ? signalSeen : 0;
}

}  // namespace sluice
