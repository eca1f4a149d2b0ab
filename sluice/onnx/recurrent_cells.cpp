#include "sluice/onnx/recurrent_cells.h"

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

Value recur(ir::GraphBuilder& b, Value h, Value weight) {
  return ops::matmul(b, h, weight, {.transposeB = true});
}

}  // namespace

/// Gates in the order input, output, forget, cell; so are the peepholes.
RecurrentCell lstmCell(Node& node, const RecurrentDims& d, const RecurrentWeights& w) {
  ir::GraphBuilder& b = node.b;
  const bool coupled = node.flag("input_forget");
  const std::vector<Value> peepholes =
      w.peephole.valid() ? ops::split(b, w.peephole, 0, Ints(3, d.hidden)) : std::vector<Value>();
  const Ints sizes(4, d.hidden);
  return [&b, w, coupled, peepholes, sizes](Value projected, const RecurrentState& state) {
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
    return RecurrentState{ops::mul(b, out, w.activations[2](b, c)), c};
  };
}

/// Gates in the order update, reset, hidden.
RecurrentCell gruCell(Node& node, const RecurrentDims& d, const RecurrentWeights& w) {
  ir::GraphBuilder& b = node.b;
  const bool linear = node.flag("linear_before_reset");
  const Ints sizes = {2 * d.hidden, d.hidden};
  const Ints halves(2, d.hidden);
  const std::vector<Value> parts = linear ? std::vector<Value>{w.h} : ops::split(b, w.h, 0, sizes);
  const Value bias = linear && w.hBias.valid() ? ops::split(b, w.hBias, 0, sizes)[1] : Value();
  return [&b, w, linear, sizes, halves, parts, bias](Value projected, const RecurrentState& state) {
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
    return RecurrentState{ops::add(b, ops::mul(b, rest, fresh), kept), Value()};
  };
}

RecurrentCell rnnCell(Node& node, const RecurrentDims& /*dims*/, const RecurrentWeights& w) {
  ir::GraphBuilder& b = node.b;
  return [&b, w](Value projected, const RecurrentState& state) {
    const Value sum = ops::add(b, projected, recur(b, state.h, w.h));
    return RecurrentState{w.activations[0](b, sum), Value()};
  };
}

}  // namespace sluice::onnx
