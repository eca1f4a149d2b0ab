// gradient_statistics: an op without results that logs statistics of a gradient. Training graphs
// have one per weight if Options request it.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/ir/graph.h"

namespace sluice::ops {

extern const ir::OpDef kGradientStatistics;

struct GradientStatisticsOptions {
  std::string weight;             ///< its name in the log
  std::int64_t period = 1;        ///< in updates; the first update is logged
  std::int64_t microBatches = 1;  ///< per update and replica
  std::int64_t replicas = 1;      ///< all have the same gradient; the first one logs it
};

/// For the Update pass. Logs the Euclidean norm and the largest magnitude of the finite elements,
/// and the number of elements that are not finite.
void gradientStatistics(ir::GraphBuilder& b,
                        ir::Value gradient,
                        const GradientStatisticsOptions& options);

}  // namespace sluice::ops
