// Translations of LSTM, GRU and RNN. The inputs of all steps are projected by one product, then the
// steps are unrolled: one product (two in a GRU that resets before it multiplies) and element-wise
// ops each, which fuse; gradients come with the ops.
//
// A batch item that is shorter than the sequence keeps its state in the steps behind its end. The
// reverse direction needs no more than that either: it starts behind the end, where the state still
// is the initial one.
#include <algorithm>
#include <array>
#include <functional>

#include "sluice/base/error.h"
#include "sluice/onnx/recurrent_activation.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

/// The operands that stand at the same places in all three ops.
enum Operand : std::size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes };

struct State {
  Value h;
  Value c;  ///< of an LSTM
};

/// One direction's share of the operands.
struct Weights {
  Value x;         ///< [gates * hidden, input]
  Value h;         ///< [gates * hidden, hidden]
  Value xBias;     ///< [gates * hidden]; none if the node has no bias
  Value hBias;     ///< the same
  Value peephole;  ///< [3 * hidden] or none
  std::span<const RecurrentActivation> activations;
};

struct Dims {
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t inputs = 0;
  std::int64_t hidden = 0;
  std::int64_t gates = 0;
  std::int64_t directions = 1;
  bool batchFirst = false;
  bool reverse = false;  ///< the only or the first direction
};

/// The next state from the projected input of one step, [batch, gates * hidden].
using Cell = std::function<State(Value projected, const State& state)>;
using MakeCell = Cell (*)(Node& node, const Dims& dims, const Weights& weights);

struct Kind {
  std::int64_t gates;
  std::vector<std::string> activations;
  MakeCell makeCell;
};

void requireShape(Node& node, std::size_t operand, std::string_view what, const Shape& wanted) {
  if (node.shape(operand) != wanted) {
    raise<InvalidArgument>("{} must be {}, got {}", what, wanted.str(), node.shape(operand).str());
  }
}

Dims dimsOf(Node& node, std::int64_t gates) {
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
  Dims d{.inputs = x[2],
         .hidden = r[2],
         .gates = gates,
         .directions = direction == "bidirectional" ? 2 : 1,
         .batchFirst = node.integer("layout") == 1,
         .reverse = direction == "reverse"};
  d.steps = x[d.batchFirst ? 1 : 0];
  d.batch = x[d.batchFirst ? 0 : 1];
  const std::int64_t rows = gates * d.hidden;
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

Weights weightsOf(Node& node,
                  const Dims& d,
                  std::int64_t direction,
                  std::span<const RecurrentActivation> activations) {
  ir::GraphBuilder& b = node.b;
  const auto count = activations.size() / static_cast<std::size_t>(d.directions);
  Weights weights{
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
Value initialState(Node& node, const Dims& d, std::size_t operand, std::int64_t direction) {
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

/// For each step which batch items are that long, bool [batch, 1]; empty when all are known to be.
std::vector<Value> presenceOf(Node& node, const Dims& d) {
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
  const Value lengths = ops::reshape(b, node.input(kLengths), Shape{d.batch, 1});
  std::vector<Value> present;
  for (std::int64_t t = 0; t < d.steps; ++t) {
    const Value step = b.scalar(b.dtype(lengths), static_cast<double>(t));
    present.push_back(ops::greater(b, lengths, step));
  }
  return present;
}

/// What is added to all projected inputs: both biases, but for the part that a GRU with
/// linear_before_reset multiplies by the reset gate.
Value inputBias(Node& node, const Dims& d, const Weights& weights) {
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

/// The projected inputs of all steps, [batch, gates * hidden] each.
std::vector<Value> project(Node& node, const Dims& d, Value x, const Weights& weights) {
  ir::GraphBuilder& b = node.b;
  const Value all = ops::reshape(b, x, Shape{d.steps * d.batch, d.inputs});
  Value projected = ops::matmul(b, all, weights.x, {.transposeB = true});
  if (const Value bias = inputBias(node, d, weights); bias.valid()) {
    projected = ops::add(b, projected, bias);
  }
  return ops::split(b, projected, 0, Ints(static_cast<std::size_t>(d.steps), d.batch));
}

struct Sequence {
  std::vector<Value> inputs;       ///< by step
  std::span<const Value> present;  ///< by step, or empty
  bool reverse = false;
};

struct Unrolled {
  std::vector<Value> outputs;  ///< h by step
  State last;
};

Unrolled unroll(ir::GraphBuilder& b, const Cell& cell, State state, const Sequence& sequence) {
  const std::size_t steps = sequence.inputs.size();
  Unrolled result{.outputs = std::vector<Value>(steps)};
  for (std::size_t i = 0; i < steps; ++i) {
    const std::size_t t = sequence.reverse ? steps - 1 - i : i;
    const State next = cell(sequence.inputs[t], state);
    if (sequence.present.empty()) {
      state = next;
      result.outputs[t] = next.h;
      continue;
    }
    const Value present = sequence.present[t];
    const Value zero = b.scalar(b.dtype(next.h), 0.0);
    result.outputs[t] = ops::where(b, present, next.h, zero);
    state.h = ops::where(b, present, next.h, state.h);
    state.c = next.c.valid() ? ops::where(b, present, next.c, state.c) : Value();
  }
  result.last = state;
  return result;
}

Value recur(ir::GraphBuilder& b, Value h, Value weight) {
  return ops::matmul(b, h, weight, {.transposeB = true});
}

/// Gates in the order input, output, forget, cell; so are the peepholes.
Cell lstmCell(Node& node, const Dims& d, const Weights& w) {
  ir::GraphBuilder& b = node.b;
  const bool coupled = node.flag("input_forget");
  const std::vector<Value> peepholes =
      w.peephole.valid() ? ops::split(b, w.peephole, 0, Ints(3, d.hidden)) : std::vector<Value>();
  const Ints sizes(4, d.hidden);
  return [&b, w, coupled, peepholes, sizes](Value projected, const State& state) {
    const auto peep = [&](Value gate, std::size_t i, Value c) {
      return peepholes.empty() ? gate : ops::add(b, gate, ops::mul(b, peepholes[i], c));
    };
    const RecurrentActivation& sigma = w.activations[0];
    const auto gates = ops::split(b, ops::add(b, projected, recur(b, state.h, w.h)), 1, sizes);
    const Value in = sigma(b, peep(gates[0], 0, state.c));
    const Value forget = coupled ? ops::sub(b, b.scalar(b.dtype(in), 1.0), in)
                                 : sigma(b, peep(gates[2], 2, state.c));
    const Value kept = ops::mul(b, forget, state.c);
    const Value c = ops::add(b, kept, ops::mul(b, in, w.activations[1](b, gates[3])));
    const Value out = sigma(b, peep(gates[1], 1, c));
    return State{ops::mul(b, out, w.activations[2](b, c)), c};
  };
}

/// Gates in the order update, reset, hidden.
Cell gruCell(Node& node, const Dims& d, const Weights& w) {
  ir::GraphBuilder& b = node.b;
  const bool linear = node.flag("linear_before_reset");
  const Ints sizes = {2 * d.hidden, d.hidden};
  const Ints halves(2, d.hidden);
  const std::vector<Value> parts = linear ? std::vector<Value>{w.h} : ops::split(b, w.h, 0, sizes);
  const Value bias = linear && w.hBias.valid() ? ops::split(b, w.hBias, 0, sizes)[1] : Value();
  return [&b, w, linear, sizes, halves, parts, bias](Value projected, const State& state) {
    const auto fromX = ops::split(b, projected, 1, sizes);
    std::vector<Value> fromH = {recur(b, state.h, parts[0])};
    if (linear) {
      fromH = ops::split(b, fromH[0], 1, sizes);
    }
    const Value both = w.activations[0](b, ops::add(b, fromX[0], fromH[0]));
    const auto gates = ops::split(b, both, 1, halves);
    Value memory;
    if (linear) {
      const Value h = bias.valid() ? ops::add(b, fromH[1], bias) : fromH[1];
      memory = ops::mul(b, gates[1], h);
    } else {
      memory = recur(b, ops::mul(b, gates[1], state.h), parts[1]);
    }
    const Value fresh = w.activations[1](b, ops::add(b, fromX[1], memory));
    const Value rest = ops::sub(b, b.scalar(b.dtype(both), 1.0), gates[0]);
    const Value kept = ops::mul(b, gates[0], state.h);
    return State{ops::add(b, ops::mul(b, rest, fresh), kept), Value()};
  };
}

Cell rnnCell(Node& node, const Dims& /*dims*/, const Weights& w) {
  ir::GraphBuilder& b = node.b;
  return [&b, w](Value projected, const State& state) {
    const Value sum = ops::add(b, projected, recur(b, state.h, w.h));
    return State{w.activations[0](b, sum), Value()};
  };
}

Value joined(ir::GraphBuilder& b, const std::vector<Value>& parts, std::int64_t axis) {
  return parts.size() == 1 ? parts[0] : ops::concat(b, parts, axis);
}

std::vector<Value> recurrent(Node& node, const Kind& kind) {
  ir::GraphBuilder& b = node.b;
  const Dims d = dimsOf(node, kind.gates);
  const auto activations =
      recurrentActivations(node, static_cast<std::size_t>(d.directions), kind.activations);
  const Value x = d.batchFirst ? ops::transpose(b, node.input(kX), {1, 0, 2}) : node.input(kX);
  const std::vector<Value> present = presenceOf(node, d);
  std::array<std::vector<Value>, 3> parts;  // Y, Y_h and Y_c by direction
  for (std::int64_t i = 0; i < d.directions; ++i) {
    const Weights weights = weightsOf(node, d, i, activations);
    State state{.h = initialState(node, d, kInitialH, i)};
    if (kind.gates == 4) {
      state.c = initialState(node, d, kInitialC, i);
    }
    const Unrolled run = unroll(b,
                                kind.makeCell(node, d, weights),
                                state,
                                {.inputs = project(node, d, x, weights),
                                 .present = present,
                                 .reverse = d.reverse || i == 1});
    parts[0].push_back(
        ops::reshape(b, ops::concat(b, run.outputs, 0), Shape{d.steps, 1, d.batch, d.hidden}));
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

constexpr std::array kTranslations = {
    Translation{"GRU", gru},
    Translation{"LSTM", lstm},
    Translation{"RNN", rnn},
};

}  // namespace

std::span<const Translation> recurrentTranslations() {
  return kTranslations;
}

}  // namespace sluice::onnx
