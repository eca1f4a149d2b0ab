// What Loop and Scan share. A body is inlined once per run, and those of its results that are rows
// are joined at the end. Internal to this module.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/onnx/node.h"

namespace sluice::onnx {

/// Throws Unsupported if there are more runs than one node may have.
void requireRuns(Node& node, std::int64_t runs);
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

std::vector<Value> importScan(Node& node);

}  // namespace sluice::onnx
