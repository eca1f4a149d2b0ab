#include <algorithm>
#include <cmath>
#include <numbers>

#include "sluice/base/error.h"
#include "sluice/optim/optimizers.h"

namespace sluice::optim {
namespace {

void requirePositive(std::int64_t count, const char* what) {
  if (count <= 0) {
    raise<InvalidArgument>("learning-rate schedule: {} is {}, expected 1 or more", what, count);
  }
}

void requireFactor(double factor, const char* what) {
  if (!std::isfinite(factor) || factor < 0) {
    raise<InvalidArgument>(
        "learning-rate schedule: {} is {}, expected a finite number from 0", what, factor);
  }
}

}  // namespace

LrSchedule LrSchedule::step(std::int64_t size, double gamma) {
  requirePositive(size, "the step size");
  requireFactor(gamma, "gamma");
  LrSchedule schedule;
  schedule.kind_ = Kind::Step;
  schedule.period_ = size;
  schedule.value_ = gamma;
  return schedule;
}

LrSchedule LrSchedule::multiStep(std::vector<std::int64_t> milestones, double gamma) {
  requireFactor(gamma, "gamma");
  if (!std::ranges::is_sorted(milestones)) {
    raise<InvalidArgument>("learning-rate schedule: the milestones must ascend");
  }
  LrSchedule schedule;
  schedule.kind_ = Kind::MultiStep;
  schedule.milestones_ = std::move(milestones);
  schedule.value_ = gamma;
  return schedule;
}

LrSchedule LrSchedule::exponential(double gamma) {
  return step(1, gamma);
}

LrSchedule LrSchedule::cosine(std::int64_t total, double minimum) {
  requirePositive(total, "the length of the cosine");
  requireFactor(minimum, "the minimum");
  LrSchedule schedule;
  schedule.kind_ = Kind::Cosine;
  schedule.period_ = total;
  schedule.value_ = minimum;
  return schedule;
}

LrSchedule LrSchedule::warmUp(std::int64_t steps, double start) const {
  if (warmUpSteps_ != 0) {
    raise<InvalidArgument>("learning-rate schedule: it already has a warm-up");
  }
  requirePositive(steps, "the length of the warm-up");
  requireFactor(start, "the start of the warm-up");
  LrSchedule schedule = *this;
  schedule.warmUpSteps_ = steps;
  schedule.warmUpStart_ = start;
  return schedule;
}

double LrSchedule::at(std::int64_t updates) const {
  if (updates < 0) {
    raise<InvalidArgument>("learning-rate schedule: asked for update {}", updates);
  }
  if (updates >= warmUpSteps_) {
    return afterWarmUp(updates - warmUpSteps_);
  }
  const double done = static_cast<double>(updates) / static_cast<double>(warmUpSteps_);
  return warmUpStart_ + (afterWarmUp(0) - warmUpStart_) * done;
}

double LrSchedule::afterWarmUp(std::int64_t updates) const {
  switch (kind_) {
    case Kind::Constant:
      return 1.0;
    case Kind::Step: {
      const std::int64_t reductions = updates / period_;
      return std::pow(value_, static_cast<double>(reductions));
    }
    case Kind::MultiStep:
      return std::pow(value_,
                      static_cast<double>(std::ranges::upper_bound(milestones_, updates) -
                                          milestones_.begin()));
    case Kind::Cosine:
      break;
  }
  const double done =
      static_cast<double>(std::min(updates, period_)) / static_cast<double>(period_);
  return value_ + (1.0 - value_) * 0.5 * (1.0 + std::cos(std::numbers::pi * done));
}

}  // namespace sluice::optim
