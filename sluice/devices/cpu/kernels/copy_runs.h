// Copies many short runs of floats, for which calls of memcpy would cost more than the copies.
#pragma once

#include <cstdint>

namespace sluice::devices::cpu {

struct RunShape {
  std::int64_t length;  ///< at least 16
  std::int64_t count;
};
struct RunSteps {
  std::int64_t from;
  std::int64_t to;
};

void copyRuns(const float* from, float* to, const RunShape& shape, const RunSteps& steps);

}  // namespace sluice::devices::cpu
