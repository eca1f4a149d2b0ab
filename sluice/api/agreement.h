// Agreement: what one of several processes has noticed, such as a signal, known to all of them at
// the same step. Loops over steps use it, since all processes make the same calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "sluice/api/model.h"

namespace sluice {

class Agreement {
 public:
  /// `what` names it in errors. The model must outlive it.
  Agreement(const Model& model, std::string what);

  bool isAlone() const { return alone_; }
  /// All processes call it once per step. Returns the largest number that one of them gives, in
  /// all. They exchange messages only now and then, after as many steps as take some time; returns
  /// 0 at all other steps. Alone, returns its own number. Numbers are from 0 to 2^31.
  std::int64_t largest(std::int64_t own);
  /// The same at this step in any case, for the last one.
  std::int64_t largestNow(std::int64_t own);

 private:
  using Clock = std::chrono::steady_clock;

  const Model& model_;
  std::string what_;
  bool alone_;
  std::int64_t interval_ = 1;  // steps between two exchanges, the same in all processes
  std::int64_t left_ = 1;      // steps until the next one
  Clock::time_point last_ = Clock::now();
};

}  // namespace sluice
