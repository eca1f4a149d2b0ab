// Checks that the tests of passes share: text in, text out, and the values stay bit for bit. Test
// code only.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "sluice/ir/graph.h"
#include "sluice/ops/interpreter.h"

namespace sluice::transforms {

using Pass = std::function<bool(ir::Graph&)>;

/// Parses with all ops.
ir::Graph parseGraph(std::string_view text);

/// Outputs and, under "var ", variables after one run on random inputs and initial values.
ops::TensorMap runGraph(const ir::Graph& graph, std::uint64_t seed);

/// Both graphs give the same bits for the same inputs.
void expectSameValues(const ir::Graph& before, const ir::Graph& after, std::uint64_t seed);

/// The pass turns one text into the other, says so, keeps the values, and then has nothing to do.
void expectPass(const Pass& pass, std::string_view before, std::string_view after);

/// The pass says that it changed nothing, and did not.
void expectUnchanged(const Pass& pass, std::string_view text);

/// A graph of element-wise ops, reductions, matmuls, variables and assigns, from the seed alone.
ir::Graph randomGraph(std::uint64_t seed, int size);

}  // namespace sluice::transforms
