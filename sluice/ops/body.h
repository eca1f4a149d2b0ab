// Bodies: graphs that are attributes of ops (fused, loop, branch). Their inputs in0, in1 ... are
// what the op gives them, their outputs out0, out1 ... what it takes. A body knows no variables,
// and its ops have no placement: the op that owns it has one.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::ops {

/// Whether an op may be in the body of a control-flow op, where it runs any number of times under
/// one name: it has no effect, draws no random numbers and talks neither to the host nor to other
/// replicas, and planners have no word to say about its result.
bool mayStandInBody(const ir::Op& op);

/// Throws InvalidArgument, which begins with the name of the op that owns the body, unless the
/// body has inputs of these types and all its ops may stand there. Returns the types of its
/// outputs.
std::vector<TensorType> checkBody(std::string_view owner,
                                  const ir::Graph& body,
                                  std::span<const TensorType> inputs);

/// Appends the ops of a body with these values in place of its inputs, under the names that they
/// have in the body. Returns its outputs.
std::vector<ir::Value> inlineBody(ir::GraphBuilder& b,
                                  const ir::Graph& body,
                                  std::span<const ir::Value> operands);

/// Runs a body by the references of its ops.
std::vector<HostTensor> evaluateBody(const ir::Graph& body,
                                     std::span<const HostTensor> operands,
                                     const ir::RunInfo& run);

/// What all ops of a body cost together.
ir::Cost costOfBody(const ir::Graph& body);

}  // namespace sluice::ops
