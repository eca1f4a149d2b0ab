// gradient_statistics: an op without results that logs what a gradient looks like. Training graphs
// have one per weight where Options ask for it.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/ir/graph_builder.h"

namespace sluice::ops {

extern const ir::OpDef kGradientStatistics;

struct GradientStatisticsOptions {
  std::string weight;             ///< what the log calls it
  std::int64_t period = 1;        ///< in updates; the first is logged
  std::int64_t microBatches = 1;  ///< of one update and replica
  std::int64_t replicas = 1;      ///< they have the same gradient; the first logs it
};

/// In the Update pass: logs the Euclidean norm and the largest magnitude of the finite elements and
/// the number of all others.
void gradientStatistics(ir::GraphBuilder& b,
                        ir::Value gradient,
                        const GradientStatisticsOptions& options);

}  // namespace sluice::ops
