// Scan: a loop op, or its body inlined for every slice.
#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/onnx/unroll.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Values = std::vector<Value>;

/// The slices of a tensor along one axis, which they do not have.
Values unstack(Node& node, Value x, std::int64_t axis) {
  const Shape& shape = node.b.shape(x);
  axis = normalizeAxis(axis, shape.rank());
  if (shape[axis] == 0) {
    return {};
  }
  const std::vector<std::int64_t> sizes(static_cast<std::size_t>(shape[axis]), 1);
  Values slices = ops::split(node.b, x, axis, sizes);
  for (Value& slice : slices) {
    slice = ops::squeeze(node.b, slice, {axis});
  }
  return slices;
}

/// A Scan of one batch item: states, and one list of slices per scanned input.
struct Scan {
  Values states = {};
  std::vector<Values> slices = {};
  Rows scanned = {};
};

/// Element i of an attribute that has one number for each result or input; 0 if it is not given.
std::int64_t perTensor(const std::vector<std::int64_t>& numbers, std::size_t i) {
  return i < numbers.size() ? numbers[i] : 0;
}

void runOnce(Node& node, Scan& scan, const Values& slices, bool counts) {
  Values inputs = scan.states;
  inputs.insert(inputs.end(), slices.begin(), slices.end());
  const Values results = node.inlineBody("body", inputs);
  const std::size_t states = scan.states.size();
  if (results.size() < states) {
    raise<InvalidArgument>("the body must give {} states, got {} values", states, results.size());
  }
  const auto rows = std::span(results).subspan(states);
  if (!counts) {
    scan.scanned.learn(node, rows);
    return;
  }
  scan.scanned.add(node, rows);
  scan.states.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(states));
}

void runScan(Node& node, Scan& scan, std::int64_t runs) {
  const std::size_t opsBefore = node.b.graph().numOps();
  for (std::int64_t run = 0; run < runs; ++run) {
    if (run == 1) {
      requireAllRuns(node, runs, node.b.graph().numOps() - opsBefore);
    }
    Values slices;
    for (const Values& list : scan.slices) {
      slices.push_back(list[static_cast<std::size_t>(run)]);
    }
    runOnce(node, scan, slices, true);
  }
}

/// The type of a slice along an axis, for a scan of no runs.
TensorType sliceType(Node& node, Value x, std::int64_t axis) {
  std::vector<std::int64_t> dims = node.b.shape(x).dims();
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(
                                normalizeAxis(axis, static_cast<std::int64_t>(dims.size()))));
  return {node.b.dtype(x), Shape(std::move(dims))};
}

/// The common extent of the scanned inputs on their axes.
std::int64_t runsOf(Node& node, const Values& inputs, std::span<const std::int64_t> axes) {
  std::int64_t runs = -1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape& shape = node.b.shape(inputs[i]);
    const std::int64_t extent = shape[normalizeAxis(axes[i], shape.rank())];
    if (runs >= 0 && extent != runs) {
      raise<InvalidArgument>("the inputs to scan have {} and {} slices", runs, extent);
    }
    runs = extent;
  }
  return runs;
}

/// How many inputs the node scans; the others are states.
std::size_t numScanned(Node& node, std::size_t operands) {
  const std::int64_t count = node.integer("num_scan_inputs");
  if (count < 1 || count > static_cast<std::int64_t>(operands)) {
    raise<InvalidArgument>("num_scan_inputs is {}, the node has {} operands", count, operands);
  }
  return static_cast<std::size_t>(count);
}

/// x with the axis moved to the front, or back from there.
Value moveAxis(Node& node, Value x, std::int64_t axis, bool toFront) {
  const std::int64_t rank = node.b.shape(x).rank();
  axis = normalizeAxis(axis, rank);
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < rank; ++i) {
    order.push_back(i);
  }
  const std::int64_t from = toFront ? axis : 0;
  order.erase(order.begin() + from);
  order.insert(order.begin() + (toFront ? 0 : axis), from);
  return axis == 0 ? x : ops::transpose(node.b, x, std::move(order));
}

/// The scan as a loop op, if it can be one.
std::optional<Values> rolledScan(Node& node,
                                 const Values& states,
                                 const Values& inputs,
                                 std::span<const std::int64_t> axes,
                                 std::int64_t runs) {
  if (runs < node.rollFrom()) {
    return std::nullopt;
  }
  ops::LoopRequest request{.count = runs, .carried = states};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value rows = moveAxis(node, inputs[i], axes[i], true);
    const bool back = perTensor(node.integers("scan_input_directions"), i) != 0;
    request.scanned.push_back(back ? ops::reverse(node.b, rows, {0}) : rows);
  }
  const auto build = [&](std::span<const Value> carried,
                         std::span<const Value> rows) -> std::optional<ops::Iteration> {
    Values operands(carried.begin(), carried.end());
    operands.insert(operands.end(), rows.begin(), rows.end());
    const Values results = node.inlineBody("body", operands);
    if (results.size() < carried.size()) {
      return std::nullopt;
    }
    const auto split = results.begin() + static_cast<std::ptrdiff_t>(carried.size());
    return ops::Iteration{.carried = {results.begin(), split}, .rows = {split, results.end()}};
  };
  std::optional<Values> results = rollLoop(node, std::move(request), build);
  for (std::size_t i = states.size(); results && i < results->size(); ++i) {
    Value& rows = (*results)[i];
    const std::size_t number = i - states.size();
    if (perTensor(node.integers("scan_output_directions"), number) != 0) {
      rows = ops::reverse(node.b, rows, {0});
    }
    rows = moveAxis(node, rows, perTensor(node.integers("scan_output_axes"), number), false);
  }
  return results;
}

/// Since version 9: no batch axis, any axes.
Values scan9(Node& node) {
  const std::size_t states = node.numInputs() - numScanned(node, node.numInputs());
  Scan scan;
  Values inputs;
  for (std::size_t i = 0; i < node.numInputs(); ++i) {
    (i < states ? scan.states : inputs).push_back(node.input(i));
  }
  std::vector<std::int64_t> axes = node.integers("scan_input_axes");
  axes.resize(inputs.size(), 0);
  const std::int64_t runs = runsOf(node, inputs, axes);
  if (std::optional<Values> results = rolledScan(node, scan.states, inputs, axes, runs)) {
    return std::move(*results);
  }
  requireRuns(node, runs);
  Values zeros;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    scan.slices.push_back(unstack(node, inputs[i], axes[i]));
    if (perTensor(node.integers("scan_input_directions"), i) != 0) {
      std::ranges::reverse(scan.slices[i]);
    }
    if (runs == 0) {
      zeros.push_back(node.b.constant(HostTensor(sliceType(node, inputs[i], axes[i]))));
    }
  }
  runScan(node, scan, runs);
  if (runs == 0) {
    runOnce(node, scan, zeros, false);
  }
  Values results = scan.states;
  for (std::size_t i = 0; i < scan.scanned.rows.size(); ++i) {
    Values& rows = scan.scanned.rows[i];
    if (perTensor(node.integers("scan_output_directions"), i) != 0) {
      std::ranges::reverse(rows);
    }
    results.push_back(stack(node,
                            std::move(rows),
                            perTensor(node.integers("scan_output_axes"), i),
                            scan.scanned.types[i]));
  }
  return results;
}

/// The runs of every batch item of version 8: all, or as many as sequence_lens says.
std::vector<std::int64_t> lengths(Node& node, std::int64_t batch, std::int64_t runs) {
  if (!node.has(0)) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(batch), runs);
  }
  std::vector<std::int64_t> given = node.integersOf(0);
  if (static_cast<std::int64_t>(given.size()) != batch ||
      std::ranges::any_of(given, [&](std::int64_t n) { return n < 0 || n > runs; })) {
    raise<InvalidArgument>("sequence_lens must be {} numbers from 0 to {}, got [{}]",
                           batch,
                           runs,
                           fmt::join(given, ", "));
  }
  return given;
}

/// A Scan of version 8: batch on axis 0 of all, slices on axis 1.
struct BatchedScan {
  std::vector<Values> items = {};  ///< per operand, per batch item
  std::size_t states = 0;          ///< operands that are states
  std::int64_t runs = 0;

  std::size_t batch() const { return items[0].size(); }
};

BatchedScan batchedScan(Node& node) {
  BatchedScan all;
  const std::size_t operands = node.numInputs() - 1;
  all.states = operands - numScanned(node, operands);
  Values inputs;
  for (std::size_t i = 0; i < operands; ++i) {
    const Value x = node.input(i + 1);
    if (node.b.shape(x).rank() > 0) {
      requireRuns(node, node.b.shape(x)[0]);
    }
    all.items.push_back(unstack(node, x, 0));
    if (all.items[i].empty() || all.items[i].size() != all.batch()) {
      raise<InvalidArgument>("all operands must have one batch of 1 or more on axis 0");
    }
    if (i >= all.states) {
      inputs.push_back(x);
    }
  }
  all.runs = runsOf(node, inputs, std::vector<std::int64_t>(inputs.size(), 1));
  requireRuns(node, all.runs);
  if (all.runs == 0) {
    node.unsupported("a scan of version 8 over no slices");
  }
  requireRuns(node, all.runs * static_cast<std::int64_t>(all.batch()));
  return all;
}

/// Scans one batch item; rows behind its length are zeros.
Scan scanItem(Node& node, const BatchedScan& all, std::size_t item, std::int64_t length) {
  Scan scan;
  Values first;
  for (std::size_t i = 0; i < all.items.size(); ++i) {
    if (i < all.states) {
      scan.states.push_back(all.items[i][item]);
      continue;
    }
    Values list = unstack(node, all.items[i][item], 0);
    first.push_back(list[0]);
    if (perTensor(node.integers("directions"), i - all.states) != 0) {
      std::ranges::reverse(list.begin(), list.begin() + length);
    }
    scan.slices.push_back(std::move(list));
  }
  runScan(node, scan, length);
  if (length == 0) {
    runOnce(node, scan, first, false);
  }
  for (std::size_t i = 0; i < scan.scanned.rows.size(); ++i) {
    Values& rows = scan.scanned.rows[i];
    while (static_cast<std::int64_t>(rows.size()) < all.runs) {
      rows.push_back(node.b.constant(HostTensor(scan.scanned.types[i])));
    }
  }
  return scan;
}

Values scan8(Node& node) {
  const BatchedScan all = batchedScan(node);
  const std::vector<std::int64_t> counts =
      lengths(node, static_cast<std::int64_t>(all.batch()), all.runs);
  Rows joined;
  for (std::size_t item = 0; item < all.batch(); ++item) {
    Scan scan = scanItem(node, all, item, counts[item]);
    Values results = scan.states;
    for (std::size_t i = 0; i < scan.scanned.rows.size(); ++i) {
      results.push_back(stack(node, std::move(scan.scanned.rows[i]), 0, scan.scanned.types[i]));
    }
    joined.add(node, results);
  }
  Values results;
  for (std::size_t i = 0; i < joined.rows.size(); ++i) {
    results.push_back(stack(node, std::move(joined.rows[i]), 0, joined.types[i]));
  }
  return results;
}

}  // namespace

std::vector<Value> importScan(Node& node) {
  return node.version() == 8 ? scan8(node) : scan9(node);
}

}  // namespace sluice::onnx
