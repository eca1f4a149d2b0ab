// Computes at compile time what depends only on constants.
#pragma once

#include <cstddef>

#include "sluice/ir/graph.h"

namespace sluice::transforms {

/// Larger results are computed each time they are needed rather than stored.
inline constexpr std::size_t kMaxFoldedBytes = std::size_t{1} << 20;
/// A result larger than its operands (a broadcast scalar) is stored only up to this size: reading
/// it from memory would cost more than making it.
inline constexpr std::size_t kMaxGrownBytes = 256;

/// Replaces ops whose operands are all constants by their results. The reference kernels compute
/// these, so they have the same bits on every machine. Random ops and ops with effects stay.
bool foldConstants(ir::Graph& graph);

}  // namespace sluice::transforms
