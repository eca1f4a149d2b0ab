#include "sluice/onnx/unroll.h"

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/onnx/sequence.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {

void requireRuns(Node& node, std::int64_t runs) {
  const std::int64_t most = node.limits().runs;
  if (runs > most) {
    node.unsupported(fmt::format(
        "the body would run {} times, at most {} can be unrolled: raise ImportOptions::limits.runs",
        runs,
        most));
  }
}

void requireRolledRuns(Node& node, std::int64_t runs) {
  const std::int64_t most = node.limits().rolledRuns;
  if (runs > most) {
    node.unsupported(
        fmt::format("the body would run {} times, at most {} are allowed: raise "
                    "ImportOptions::limits.rolledRuns",
                    runs,
                    most));
  }
}

void requireAllRuns(Node& node, std::int64_t runs, std::size_t opsOfOne) {
  requireRuns(node, runs);
  const std::size_t most = node.limits().ops;
  if (opsOfOne > 0 && static_cast<std::size_t>(runs) > most / opsOfOne) {
    node.unsupported(
        fmt::format("the body would run {} times and make {} ops each time, the limit of all ops "
                    "is {}: raise ImportOptions::limits.ops",
                    runs,
                    opsOfOne,
                    most));
  }
}

Value stack(Node& node, std::vector<Value> rows, std::int64_t axis, const TensorType& like) {
  axis = normalizeAxis(axis, like.shape.rank() + 1);
  if (rows.empty()) {
    std::vector<std::int64_t> dims = like.shape.dims();
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), 0);
    return node.b.constant(HostTensor(like.dtype, Shape(std::move(dims))));
  }
  for (Value& row : rows) {
    if (node.b.type(row) != like) {
      raise<InvalidArgument>(
          "a body gives rows of {} and of {} for one result", like.str(), node.b.type(row).str());
    }
    row = ops::unsqueeze(node.b, row, {axis});
  }
  return ops::concat(node.b, std::move(rows), axis);
}

void Rows::learn(Node& node, std::span<const Value> results) {
  rows.resize(results.size());
  for (std::size_t i = types.size(); i < results.size(); ++i) {
    if (isSequence(node.b.graph(), results[i])) {
      node.unsupported("rows that are sequences of tensors");
    }
    types.push_back(node.b.type(results[i]));
  }
}

void Rows::add(Node& node, std::span<const Value> results) {
  learn(node, results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    rows[i].push_back(results[i]);
  }
}

}  // namespace sluice::onnx
