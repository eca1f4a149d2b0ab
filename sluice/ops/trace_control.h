// Control flow from code that appends ops to a graph. A front end calls its body once, and the ops
// that it appended are cut out and become the body of a loop or branch. What cannot stand in a body
// (body.h), or lies on more than one device, stays as it is: a loop is then unrolled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/ir/graph.h"

namespace sluice::ops {

/// Loops of fewer iterations are unrolled unless asked otherwise. Few copies compile quickly, and
/// their ops can be merged and fused across iterations; a loop saves nothing there.
inline constexpr std::int64_t kRolledFrom = 16;

/// What one iteration returns.
struct Iteration {
  std::vector<ir::Value> carried;
  std::vector<ir::Value> rows = {};
  bool mayBeRolled = true;  ///< false: something refers to single ops of the iteration
};

struct LoopRequest {
  std::int64_t count = 1;  ///< at least 1
  std::vector<ir::Value> carried = {};
  std::vector<ir::Value> scanned = {};  ///< with `count` rows on the first axis
  bool reverse = false;
  std::int64_t rollFrom = kRolledFrom;  ///< smaller loops are unrolled
};

/// Appends the ops of one iteration, given carried values and rows. The first call decides whether
/// there is a second one.
using BuildIteration =
    FunctionRef<Iteration(std::span<const ir::Value> carried, std::span<const ir::Value> rows)>;

/// Returns the last carried values, then the rows of all iterations on a new first axis. Both forms
/// have the same bits, and so have their gradients. Throws Unsupported for a loop that must be
/// unrolled and has more than kMaxUnrolled iterations.
std::vector<ir::Value> traceLoop(ir::GraphBuilder& b,
                                 const LoopRequest& request,
                                 BuildIteration build);

/// One branch of a condition: the ops at the positions [first, end) of the graph, and its results.
struct TracedBranch {
  std::size_t first = 0;
  std::size_t end = 0;
  std::vector<ir::Value> results = {};
};

/// Cuts out two branches, the second of which ends the graph, and returns the results of the branch
/// op that takes their place. The condition is bool[]; results must have the same types. Returns
/// nothing, and changes nothing, if a branch cannot be cut out.
std::optional<std::vector<ir::Value>> cutBranches(ir::GraphBuilder& b,
                                                  ir::Value condition,
                                                  const TracedBranch& yes,
                                                  const TracedBranch& no);

}  // namespace sluice::ops
