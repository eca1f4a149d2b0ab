// Batch norms that keep running statistics, as one op. A graph has them as several ops: batch_norm,
// the new averages of its mean and its variance, and two assigns. The standard has one node for all
// of them, BatchNormalization in training mode, which the importer reads as those ops.
#pragma once

#include "sluice/ir/graph.h"

namespace sluice::onnx {

/// (x, gamma, beta, mean, variance) {epsilon, momentum} -> y and the new averages. Only graphs that
/// are being exported have it.
extern const ir::OpDef kRunningBatchNorm;

/// Replaces what the importer makes of BatchNormalization in training mode by kRunningBatchNorm.
void joinRunningStatistics(ir::Graph& graph);

}  // namespace sluice::onnx
