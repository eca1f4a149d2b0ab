// What Loop and Scan share: a body is inlined once per run, and its results that are rows are
// joined at the end. Internal to this module.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/onnx/node.h"

namespace sluice::onnx {

/// Times that one node may run its body: each is a copy of all its ops.
inline constexpr std::int64_t kMaxRuns = 10'000;

/// Throws Unsupported if there are more.
void requireRuns(Node& node, std::int64_t runs);

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
