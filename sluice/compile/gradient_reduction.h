// How the gradients of several micro-batches and replicas become one. The options have these, too.
#pragma once

#include <cstdint>

namespace sluice::compiler {

enum class GradientReduction : std::uint8_t { Mean, Sum };

/// Where the division of a mean happens: after every micro-batch, after the last one, or there for
/// the micro-batches and at the loss for the replicas.
enum class MeanReductionStrategy : std::uint8_t { Running, Post, PostAndLoss };

}  // namespace sluice::compiler
