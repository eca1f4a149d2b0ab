// The gradient of a loop is a loop that runs the other way. Its body is the gradient of the body:
//
//     forward:   h, y[i] = body(h, x[i], w)          carried h, scanned x, fixed w, rows y
//     backward:  dh, dw, dx[i] = gradient(dh, dw, dy[i], x[i], saved[i], w)
//
// dh is carried from the end to the start; dw is carried, too, and each iteration adds to it. What
// the gradient reads of an iteration becomes a row of the forward loop ("saved"), unless it depends
// on fixed values alone: then it is computed again.
//
// Sums have the order of the unrolled form (ops/loop.cpp), so they have its bits. The sum of a
// fixed operand begins with what its uses after the loop gave. A sum without a beginning starts
// from -0, to which anything can be added without changing a bit. One thing is left: if a carried
// value gets its first gradient only from an earlier iteration, later ones work with this -0, where
// the unrolled form has no ops at all; gradients that are zero may then have the other sign.
#include <array>
#include <memory>

#include "sluice/ops/control_ops.h"
#include "sluice/transforms/differentiator.h"

namespace sluice::transforms {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;
using ops::LoopView;

/// Replaces the loop by one whose body returns more rows.
OpId withBody(ir::Graph& graph, const Op& op, ir::GraphRef body) {
  ir::Attrs attrs = op.attrs;
  attrs.set({"body", std::move(body)});
  const OpId made = graph.insertBefore(op.id,
                                       {.def = *op.def,
                                        .inputs = op.inputs,
                                        .attrs = std::move(attrs),
                                        .name = op.name,
                                        .place = op.place});
  std::unordered_map<Value, Value> results;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    results.emplace(op.out(i), graph.op(made).out(i));
  }
  graph.replaceUses(results);
  graph.remove(std::array{op.id});
  return made;
}

/// The body, in which a fixed operand that is given twice goes by its first input alone, so that
/// its gradients have one sum.
ir::GraphRef withDistinctInputs(const LoopView& loop, std::span<const Value> operands) {
  ir::Graph body = loop.body;
  const std::vector<OpId> inputs = body.inputs();
  std::unordered_map<Value, Value> firsts;  // by operand
  std::unordered_map<Value, Value> replaced;
  for (std::size_t i = loop.carried + loop.scanned; i < inputs.size(); ++i) {
    const auto [first, isNew] = firsts.emplace(operands[i], Value{inputs[i], 0});
    if (!isNew) {
      replaced.emplace(Value{inputs[i], 0}, first->second);
    }
  }
  body.replaceUses(replaced);
  return std::make_shared<const ir::Graph>(std::move(body));
}

}  // namespace

void Differentiator::differentiateLoop(const Op& op, std::span<const Value> outputGrads) {
  ir::Attrs attrs = op.attrs;
  attrs.set({"body", withDistinctInputs(LoopView(attrs), op.inputs)});
  const LoopView loop(attrs);
  const std::vector<Value> operands = op.inputs;
  if (loop.count == 0) {
    for (std::size_t i = loop.carried; i-- > 0;) {
      if (outputGrads[i].valid() && needs(operands[i])) {
        contribute(operands[i], outputGrads[i]);
      }
    }
    return;
  }
  std::vector<bool> needed;
  std::vector<bool> given;
  needed.reserve(operands.size());
  given.reserve(outputGrads.size());
  for (const Value v : operands) {
    needed.push_back(needs(v));
  }
  for (const Value v : outputGrads) {
    given.push_back(v.valid());
  }
  const std::size_t outputs = op.outputs.size();
  const LoopGradient gradient = differentiateBody(attrs, needed, given);
  // From here on `op` may be gone.
  const OpId forward = gradient.forward == nullptr ? op.id : withBody(graph_, op, gradient.forward);
  ops::LoopParts parts{.body = gradient.body, .count = loop.count, .reverse = !loop.reverse};
  for (const std::size_t i : gradient.carriedGrads) {
    parts.carried.push_back(orNone(outputGrads[i], operands[i]));
  }
  for (const std::size_t i : gradient.sums) {
    parts.carried.push_back(orNone(gradientOf(operands[i]), operands[i]));
  }
  for (const std::size_t i : gradient.rowGrads) {
    parts.scanned.push_back(outputGrads[i]);
  }
  for (const std::size_t i : gradient.scannedReads) {
    parts.scanned.push_back(operands[i]);
  }
  for (std::size_t i = 0; i < gradient.saved.size(); ++i) {
    parts.scanned.push_back(graph_.op(forward).out(outputs + i));
  }
  for (const std::size_t i : gradient.fixedReads) {
    parts.fixed.push_back(operands[i]);
  }
  takeGradients(gradient, operands, ops::loop(builder_, parts));
}

Value Differentiator::orNone(Value gradient, Value like) {
  return gradient.valid() ? gradient : noGradient(builder_, graph_.type(like));
}

/// In the order of the unrolled form: fixed operands, rows, initial values, the last one first.
void Differentiator::takeGradients(const LoopGradient& gradient,
                                   std::span<const Value> operands,
                                   std::span<const Value> results) {
  const std::size_t carried = gradient.carriedGrads.size();
  const std::size_t sums = gradient.sums.size();
  for (std::size_t k = 0; k < sums; ++k) {
    sums_[operands[gradient.sums[k]]] = results[carried + k];  // it began with what was there
  }
  for (std::size_t k = gradient.rows.size(); k-- > 0;) {
    contribute(operands[gradient.rows[k]], results[carried + sums + k]);
  }
  for (std::size_t k = carried; k-- > 0;) {
    const Value operand = operands[gradient.carriedGrads[k]];
    if (gradient.reachesStart[k] && needs(operand)) {
      contribute(operand, results[k]);
    }
  }
}

}  // namespace sluice::transforms
