// What Loop and Scan share. A body is inlined once, if it can become that of a loop op, and else
// once per run; those of its results that are rows are joined at the end. Internal to this module.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sluice/onnx/node.h"
#include "sluice/ops/trace_control.h"

namespace sluice::onnx {

/// Throws Unsupported if there are more runs than one node may have, unrolled or as a loop.
void requireRuns(Node& node, std::int64_t runs);
void requireRolledRuns(Node& node, std::int64_t runs);
/// The same in advance, for all runs: assumes that every run makes as many ops as the first.
void requireAllRuns(Node& node, std::int64_t runs, std::size_t opsOfOne);

/// Joins rows of type `like` on a new axis. If there are no rows, the result is an empty tensor.
/// Throws InvalidArgument for a row of another type.
Value stack(Node& node, std::vector<Value> rows, std::int64_t axis, const TensorType& like);

/// The rows that every run of a body adds to its results.
struct Rows {
  std::vector<std::vector<Value>> rows = {};  ///< by result
  std::vector<TensorType> types = {};         ///< type of one row, by result

  void add(Node& node, std::span<const Value> results);
  /// Notes only the types, from a run that is not executed.
  void learn(Node& node, std::span<const Value> results);
};

/// A loop op: the last carried values, then the rows. The body sees its inputs as values that are
/// not known, whatever they are at the start. Returns nothing if the loop has to be unrolled: if it
/// is short, if `build` returns nothing or throws (a node must know a value), or if the body cannot
/// be cut out of the graph. What the attempt appended is then gone. Throws Unsupported for too many
/// runs.
std::optional<std::vector<Value>> rollLoop(
    Node& node,
    ops::LoopRequest request,
    FunctionRef<std::optional<ops::Iteration>(std::span<const Value> carried,
                                              std::span<const Value> rows)> build);

std::vector<Value> importScan(Node& node);

}  // namespace sluice::onnx
