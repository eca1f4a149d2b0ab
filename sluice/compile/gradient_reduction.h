// How the gradients of several micro-batches and replicas are combined. The options use these, too.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

namespace sluice::compiler {

enum class GradientReduction : std::uint8_t { Mean, Sum };

/// Where the division of a mean happens. Running: after every micro-batch. Post: after the last
/// one. PostAndLoss: after the last one for micro-batches, and at the loss for replicas.
enum class MeanReductionStrategy : std::uint8_t { Running, Post, PostAndLoss };

}  // namespace sluice::compiler

#pragma GCC visibility pop
