// Makes the body of a fused op from a group of ops. Private to the fusion passes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::transforms {

struct FusionBody {
  std::shared_ptr<const ir::Graph> graph;  // shared with the attribute it becomes
  std::vector<ir::Value> operands;         ///< the values that the body's inputs stand for
  std::vector<ir::Value> results;          ///< the members' values that its outputs replace
};

struct BodySize {
  std::size_t ops = 0;       ///< without constants
  std::size_t operands = 0;  ///< without scalar constants
};

/// The size of a body made of these ops; a fused op among them counts with its own body.
BodySize bodySize(const ir::Graph& graph, std::span<const ir::OpId> group);

/// An anchor comes first in the body, then the other members in order. Fused ops among them are
/// taken apart, and scalar constants are copied. The results are the values that ops outside read.
FusionBody makeBody(const ir::Graph& graph,
                    const ir::Users& users,
                    std::span<const ir::OpId> group);

}  // namespace sluice::transforms
