// What was predicted beside what was measured: the figures of a real run and of the same Program in
// virtual time, part by part. A pure function of two traces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/profile/trace.h"

namespace sluice::profile {

/// One figure of both, in nanoseconds per step.
struct PredictedPart {
  std::string what;  ///< "step", "work of device 0", "forward 2"
  std::int64_t measured = 0;
  std::int64_t predicted = 0;

  /// Of the measured time; 0 if nothing was measured.
  double error() const {
    return measured == 0
               ? 0
               : static_cast<double>(predicted - measured) / static_cast<double>(measured);
  }
};

struct Prediction {
  std::string target;                  ///< "measured"
  PredictedPart step;                  ///< its whole time
  std::vector<PredictedPart> devices;  ///< the work of each device
  std::vector<PredictedPart> tasks;    ///< all tasks of a name, those that take longest first
};

/// Throws InvalidArgument unless the second trace was simulated and both are of programs with the
/// same devices and tasks, and have steps.
Prediction predictionOf(const Trace& measured, const Trace& predicted);

}  // namespace sluice::profile
