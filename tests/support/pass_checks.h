// Checks that the tests of passes share: text in, text out, and the values stay bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "sluice/ir/graph.h"
#include "sluice/ops/interpreter.h"

namespace sluice::transforms {

using Pass = std::function<bool(ir::Graph&)>;

/// Parses a graph; all ops are known.
ir::Graph parseGraph(std::string_view text);

/// Runs the graph once on random inputs and initial values; returns its outputs and its variables,
/// the latter under names with "var ".
ops::TensorMap runGraph(const ir::Graph& graph, std::uint64_t seed);

/// Expects that both graphs give the same bits for the same inputs.
void expectSameValues(const ir::Graph& before, const ir::Graph& after, std::uint64_t seed);

/// Expects that the pass turns `before` into `after`, keeps the values, and then changes nothing.
void expectPass(const Pass& pass, std::string_view before, std::string_view after);

/// Expects that the pass returns false and changes nothing.
void expectUnchanged(const Pass& pass, std::string_view text);

/// Makes a graph of element-wise ops, reductions, matmuls, variables and assigns from the seed.
ir::Graph randomGraph(std::uint64_t seed, int size);

}  // namespace sluice::transforms
