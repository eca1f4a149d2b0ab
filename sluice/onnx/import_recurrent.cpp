// Translations of LSTM, GRU and RNN. The inputs of all steps are projected by one product. Then a
// loop over the steps has one product (two in a GRU that resets before it multiplies) and
// element-wise ops each time, which fuse; gradients come with the ops.
//
// A batch item that is shorter than the sequence keeps its state in the steps behind its end. The
// reverse direction needs no more than that either: it starts behind the end, where the state still
// is the initial one.
#include <algorithm>
#include <array>

#include "sluice/base/error.h"
#include "sluice/onnx/recurrent_cells.h"
#include "sluice/onnx/translations.h"
#include "sluice/onnx/unroll.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/trace_control.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

/// The operands that stand at the same places in all three ops.
constexpr std::size_t kX = 0;
constexpr std::size_t kW = 1;
constexpr std::size_t kR = 2;
constexpr std::size_t kB = 3;
constexpr std::size_t kLengths = 4;
constexpr std::size_t kInitialH = 5;
constexpr std::size_t kInitialC = 6;
constexpr std::size_t kPeepholes = 7;

struct Kind {
  std::int64_t gates;
  std::vector<std::string> activations;
  RecurrentCell (*makeCell)(Node&, const RecurrentDims&, const RecurrentWeights&);
};

void requireShape(Node& node, std::size_t operand, std::string_view what, const Shape& wanted) {
  if (node.shape(operand) != wanted) {
    raise<InvalidArgument>("{} must be {}, got {}", what, wanted.str(), node.shape(operand).str());
  }
}

RecurrentDims dimsOf(Node& node, std::int64_t gates) {
  const Shape x = node.shape(kX);
  const Shape r = node.shape(kR);
  if (x.rank() != 3 || r.rank() != 3) {
    raise<InvalidArgument>("X and R must be of rank 3, got {} and {}", x.str(), r.str());
  }
  const std::string direction = node.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    raise<InvalidArgument>("direction must be forward, reverse or bidirectional, got '{}'",
                           direction);
  }
  RecurrentDims d{.inputs = x[2],
                  .hidden = r[2],
                  .gates = gates,
                  .directions = direction == "bidirectional" ? 2 : 1,
                  .batchFirst = node.integer("layout") == 1,
                  .reverse = direction == "reverse"};
  d.steps = x[d.batchFirst ? 1 : 0];
  d.batch = x[d.batchFirst ? 0 : 1];
  const std::int64_t rows = gates * d.hidden;
  requireRolledRuns(node, d.steps);
  if (d.steps < 1 || node.integer("hidden_size", d.hidden) != d.hidden) {
    raise<InvalidArgument>("X {} has no steps, or R {} is not for hidden_size {}",
                           x.str(),
                           r.str(),
                           node.integer("hidden_size", d.hidden));
  }
  requireShape(node, kW, "W", Shape{d.directions, rows, d.inputs});
  requireShape(node, kR, "R", Shape{d.directions, rows, d.hidden});
  if (node.has(kB)) {
    requireShape(node, kB, "B", Shape{d.directions, 2 * rows});
  }
  if (node.has(kLengths)) {
    requireShape(node, kLengths, "sequence_lens", Shape{d.batch});
  }
  return d;
}

/// Row i of the first axis, which goes away.
Value row(ir::GraphBuilder& b, Value x, std::int64_t i) {
  const Shape shape = b.shape(x);
  Ints starts(static_cast<std::size_t>(shape.rank()), 0);
  Ints ends = shape.dims();
  const Shape rest(Ints(ends.begin() + 1, ends.end()));
  if (shape[0] == 1) {
    return ops::reshape(b, x, rest);
  }
  starts[0] = i;
  ends[0] = i + 1;
  return ops::reshape(b, ops::slice(b, x, std::move(starts), std::move(ends)), rest);
}

RecurrentWeights weightsOf(Node& node,
                           const RecurrentDims& d,
                           std::int64_t direction,
                           std::span<const RecurrentActivation> activations) {
  ir::GraphBuilder& b = node.b;
  const auto count = activations.size() / static_cast<std::size_t>(d.directions);
  RecurrentWeights weights{
      .x = row(b, node.input(kW), direction),
      .h = row(b, node.input(kR), direction),
      .activations = activations.subspan(static_cast<std::size_t>(direction) * count, count)};
  if (node.has(kB)) {
    const std::int64_t rows = d.gates * d.hidden;
    const auto halves = ops::split(b, row(b, node.input(kB), direction), 0, {rows, rows});
    weights.xBias = halves[0];
    weights.hBias = halves[1];
  }
  if (d.gates == 4 && node.has(kPeepholes)) {
    requireShape(node, kPeepholes, "P", Shape{d.directions, 3 * d.hidden});
    weights.peephole = row(b, node.input(kPeepholes), direction);
  }
  return weights;
}

/// [batch, hidden]; zeros if it is not given.
Value initialState(Node& node,
                   const RecurrentDims& d,
                   std::size_t operand,
                   std::int64_t direction) {
  ir::GraphBuilder& b = node.b;
  if (!node.has(operand)) {
    return ops::full(b, {node.dtype(kX), Shape{d.batch, d.hidden}}, 0.0);
  }
  requireShape(node,
               operand,
               "the initial state",
               d.batchFirst ? Shape{d.batch, d.directions, d.hidden}
                            : Shape{d.directions, d.batch, d.hidden});
  const Value given = node.input(operand);
  return row(b, d.batchFirst ? ops::transpose(b, given, {1, 0, 2}) : given, direction);
}

/// Which batch items are that long, bool [steps, batch, 1]; no value if all are known to be.
Value presenceOf(Node& node, const RecurrentDims& d) {
  if (!node.has(kLengths)) {
    return {};
  }
  if (node.isConstant(kLengths)) {
    const Ints lengths = node.integersOf(kLengths);
    if (std::ranges::all_of(lengths, [&](std::int64_t n) { return n == d.steps; })) {
      return {};
    }
  }
  ir::GraphBuilder& b = node.b;
  const Value lengths = ops::reshape(b, node.input(kLengths), Shape{1, d.batch, 1});
  return ops::greater(b, lengths, ops::iota(b, {b.dtype(lengths), Shape{d.steps, 1, 1}}));
}

/// What is added to all projected inputs: both biases, but for the part that a GRU with
/// linear_before_reset multiplies by the reset gate.
Value inputBias(Node& node, const RecurrentDims& d, const RecurrentWeights& weights) {
  ir::GraphBuilder& b = node.b;
  if (!weights.xBias.valid()) {
    return Value();
  }
  Value hBias = weights.hBias;
  if (node.flag("linear_before_reset")) {
    const auto parts = ops::split(b, hBias, 0, {2 * d.hidden, d.hidden});
    const Value nothing = ops::full(b, {b.dtype(hBias), Shape{d.hidden}}, 0.0);
    hBias = ops::concat(b, {parts[0], nothing}, 0);
  }
  return ops::add(b, weights.xBias, hBias);
}

/// The projected inputs of all steps, [steps, batch, gates * hidden].
Value project(Node& node, const RecurrentDims& d, Value x, const RecurrentWeights& weights) {
  ir::GraphBuilder& b = node.b;
  const Value all = ops::reshape(b, x, Shape{d.steps * d.batch, d.inputs});
  Value projected = ops::matmul(b, all, weights.x, {.transposeB = true});
  if (const Value bias = inputBias(node, d, weights); bias.valid()) {
    projected = ops::add(b, projected, bias);
  }
  return ops::reshape(b, projected, Shape{d.steps, d.batch, d.gates * d.hidden});
}

struct Sequence {
  Value inputs;   ///< projected, by step
  Value present;  ///< by step, or no value
  bool reverse = false;
};

struct SequenceRun {
  Value outputs;  ///< h by step, [steps, batch, hidden]
  RecurrentState last;
};

/// One step, which batch items that are not that long pass over.
ops::Iteration step(ir::GraphBuilder& b,
                    const RecurrentCell& cell,
                    const RecurrentState& state,
                    std::span<const Value> rows) {
  RecurrentState next = cell(rows[0], state);
  Value output = next.h;
  if (rows.size() > 1) {
    output = ops::where(b, rows[1], next.h, b.scalar(b.dtype(next.h), 0.0));
    next.h = ops::where(b, rows[1], next.h, state.h);
    next.c = next.c.valid() ? ops::where(b, rows[1], next.c, state.c) : Value();
  }
  ops::Iteration made{.carried = {next.h}, .rows = {output}};
  if (next.c.valid()) {
    made.carried.push_back(next.c);
  }
  return made;
}

SequenceRun runSequence(Node& node,
                        const RecurrentCell& cell,
                        const RecurrentState& state,
                        const Sequence& sequence) {
  ops::LoopRequest request{.count = node.b.shape(sequence.inputs)[0],
                           .carried = {state.h},
                           .scanned = {sequence.inputs},
                           .reverse = sequence.reverse,
                           .rollFrom = node.rollFrom()};
  if (state.c.valid()) {
    request.carried.push_back(state.c);
  }
  if (sequence.present.valid()) {
    request.scanned.push_back(sequence.present);
  }
  const std::vector<Value> results =
      ops::traceLoop(node.b, request, [&](std::span<const Value> carried, auto rows) {
        const RecurrentState before{.h = carried[0],
                                    .c = carried.size() > 1 ? carried[1] : Value()};
        return step(node.b, cell, before, rows);
      });
  return {.outputs = results.back(),
          .last = {.h = results[0], .c = state.c.valid() ? results[1] : Value()}};
}

Value joined(ir::GraphBuilder& b, const std::vector<Value>& parts, std::int64_t axis) {
  return parts.size() == 1 ? parts[0] : ops::concat(b, parts, axis);
}

std::vector<Value> recurrent(Node& node, const Kind& kind) {
  ir::GraphBuilder& b = node.b;
  const RecurrentDims d = dimsOf(node, kind.gates);
  const auto activations =
      recurrentActivations(node, static_cast<std::size_t>(d.directions), kind.activations);
  const Value x = d.batchFirst ? ops::transpose(b, node.input(kX), {1, 0, 2}) : node.input(kX);
  const Value present = presenceOf(node, d);
  std::array<std::vector<Value>, 3> parts;  // Y, Y_h and Y_c by direction
  for (std::int64_t i = 0; i < d.directions; ++i) {
    const RecurrentWeights weights = weightsOf(node, d, i, activations);
    RecurrentState state{.h = initialState(node, d, kInitialH, i)};
    if (kind.gates == 4) {
      state.c = initialState(node, d, kInitialC, i);
    }
    const SequenceRun run = runSequence(node,
                                        kind.makeCell(node, d, weights),
                                        state,
                                        {.inputs = project(node, d, x, weights),
                                         .present = present,
                                         .reverse = d.reverse || i == 1});
    parts[0].push_back(ops::reshape(b, run.outputs, Shape{d.steps, 1, d.batch, d.hidden}));
    parts[1].push_back(ops::reshape(b, run.last.h, Shape{1, d.batch, d.hidden}));
    if (run.last.c.valid()) {
      parts[2].push_back(ops::reshape(b, run.last.c, Shape{1, d.batch, d.hidden}));
    }
  }
  std::vector<Value> results = {joined(b, parts[0], 1), joined(b, parts[1], 0)};
  if (!parts[2].empty()) {
    results.push_back(joined(b, parts[2], 0));
  }
  if (d.batchFirst) {
    results[0] = ops::transpose(b, results[0], {2, 0, 1, 3});
    for (std::size_t i = 1; i < results.size(); ++i) {
      results[i] = ops::transpose(b, results[i], {1, 0, 2});
    }
  }
  return results;
}

std::vector<Value> lstm(Node& node) {
  return recurrent(node,
                   {.gates = 4, .activations = {"Sigmoid", "Tanh", "Tanh"}, .makeCell = lstmCell});
}

std::vector<Value> gru(Node& node) {
  return recurrent(node, {.gates = 3, .activations = {"Sigmoid", "Tanh"}, .makeCell = gruCell});
}

std::vector<Value> rnn(Node& node) {
  return recurrent(node, {.gates = 1, .activations = {"Tanh"}, .makeCell = rnnCell});
}

constexpr std::array kRecurrentTranslations = {
    Translation{"GRU", gru},
    Translation{"LSTM", lstm},
    Translation{"RNN", rnn},
};

}  // namespace

std::span<const Translation> recurrentTranslations() {
  return kRecurrentTranslations;
}

}  // namespace sluice::onnx
