// What can be tuned about an op: its key in the tuning table and the values to try.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sluice/ir/op_def.h"

namespace sluice::devices::cpu {

struct TuningOptions {
  std::string key;
  std::vector<std::string> values;
};

/// Returns nullopt for an op that has no alternatives.
std::optional<TuningOptions> tuningOptions(const ir::OpView& op);

// conv_plan.cpp
TuningOptions convTuning(const ir::OpView& op);
// matmul_plan.cpp
TuningOptions matmulTuning(const ir::OpView& op);

}  // namespace sluice::devices::cpu
