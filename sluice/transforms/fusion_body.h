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
  std::vector<ir::Value> operands;         ///< what the body's inputs stand for
  std::vector<ir::Value> results;          ///< which members' values its outputs replace
};

struct BodySize {
  std::size_t ops = 0;       ///< without constants
  std::size_t operands = 0;  ///< without scalar constants
};

/// What a body of these ops would have; fused ops among them count as their own bodies.
BodySize bodySize(const ir::Graph& graph, std::span<const ir::OpId> group);

/// An anchor comes first in the body, then the other members in order. Fused ops among them are
/// taken apart; scalar constants are copied. Results are those that somebody outside reads.
FusionBody makeBody(const ir::Graph& graph,
                    const ir::Users& users,
                    std::span<const ir::OpId> group);

}  // namespace sluice::transforms
