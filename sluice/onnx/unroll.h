// What Loop and Scan share: a body is inlined once per run, and its results that are rows are
// joined at the end. Internal to this module.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/onnx/node.h"

namespace sluice::onnx {

/// Throws Unsupported if there are more than one node may have.
void requireRuns(Node& node, std::int64_t runs);
/// The same before the work: every run will make as many ops as the first.
void requireAllRuns(Node& node, std::int64_t runs, std::size_t opsOfOne);

/// Rows joined on a new axis; no rows: an empty tensor of rows of type `like`. Throws
/// InvalidArgument if one is of another type.
Value stack(Node& node, std::vector<Value> rows, std::int64_t axis, const TensorType& like);

/// The rows that every run of a body adds to its results.
struct Rows {
  std::vector<std::vector<Value>> rows = {};  ///< per result
  std::vector<TensorType> types = {};         ///< of one row of each

  void add(Node& node, std::span<const Value> results);
  /// Only the types: of a run that does not happen.
  void learn(Node& node, std::span<const Value> results);
};

std::vector<Value> importScan(Node& node);

}  // namespace sluice::onnx
