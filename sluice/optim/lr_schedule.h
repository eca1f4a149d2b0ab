// LrSchedule: the factor on the learning rates as a function of the number of updates made so far.
// It is a value type: LrSchedule::cosine(1000).warmUp(100). The factor is passed to
// Optimizer::scalars, so that groups keep the ratio of their learning rates.
#pragma once

#include <cstdint>
#include <vector>

#pragma GCC visibility push(default)

namespace sluice::optim {

class LrSchedule {
 public:
  LrSchedule() = default;  ///< constant 1

  static LrSchedule constant() { return {}; }
  /// Multiplies by gamma after every `size` updates.
  static LrSchedule step(std::int64_t size, double gamma = 0.1);
  /// Multiplies by gamma at each of these updates, which must be in ascending order.
  static LrSchedule multiStep(std::vector<std::int64_t> milestones, double gamma = 0.1);
  /// Multiplies by gamma after every update.
  static LrSchedule exponential(double gamma);
  /// Follows half a cosine from 1 down to `minimum` (a fraction) in `total` updates, and stays
  /// there.
  static LrSchedule cosine(std::int64_t total, double minimum = 0.0);

  /// The same schedule after a warm-up: over `steps` updates, the factor rises linearly from
  /// `start` to the first value of this schedule.
  LrSchedule warmUp(std::int64_t steps, double start = 0.0) const;

  /// The factor for the next update when `updates` were made already. Throws InvalidArgument for a
  /// negative number.
  double at(std::int64_t updates) const;

 private:
  enum class Kind : std::uint8_t { Constant, Step, MultiStep, Cosine };

  double afterWarmUp(std::int64_t updates) const;

  Kind kind_ = Kind::Constant;
  std::int64_t period_ = 1;  // Step: size; Cosine: total
  double value_ = 1.0;       // Step, MultiStep: gamma; Cosine: minimum
  std::vector<std::int64_t> milestones_;
  std::int64_t warmUpSteps_ = 0;
  double warmUpStart_ = 0.0;
};

}  // namespace sluice::optim

#pragma GCC visibility pop
