// Models of a Builder's graph.
#pragma once

#include <memory>
#include <optional>

#include "sluice/api/model.h"
#include "sluice/frontends/popart/builder_op_options.h"

#pragma GCC visibility push(default)

namespace sluice {

class Builder;

/// Of a Builder's graph as it is now. Inputs and outputs are those that were added to it, in order;
/// the loss need not be an output. Models of one Builder share its weights. Throws InvalidArgument
/// for an unknown loss.
Model trainingModel(Builder& builder,
                    const TensorId& loss,
                    const Options& options,
                    const optim::Optimizer& optimizer);
/// Throws InvalidArgument for a graph without outputs.
Model inferenceModel(Builder& builder, const Options& options);

/// The graph as it is now, as the source of a model: what is built later does not count. The
/// builder may end before the source. Throws InvalidArgument for an unknown loss or no output. With
/// constantWeights the graph has constants in place of its weights: the values at the time of
/// tracing.
std::unique_ptr<GraphSource> builderSource(Builder& builder,
                                           std::optional<TensorId> loss,
                                           bool constantWeights = false);

}  // namespace sluice

#pragma GCC visibility pop
