#include "sluice/transforms/fusion_body.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "sluice/ops/fused.h"

namespace sluice::transforms {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;

bool isScalarConstant(const Op& op) {
  return op.is(ir::kConstant) && op.outputs[0].shape.elements() == 1;
}

/// The values that a group reads and does not make, each once, scalar constants left out unless an
/// anchor reads them.
std::vector<Value> operandsOf(const ir::Graph& graph, std::span<const OpId> group) {
  std::vector<Value> operands;  // few, like the members: nothing finds them quicker than looking
  for (const OpId id : group) {
    for (const Value v : graph.op(id).inputs) {
      const bool copied =
          isScalarConstant(graph.op(v.op)) && !ops::isFusionAnchor(*graph.op(id).def);
      if (!copied && std::ranges::find(group, v.op) == group.end() &&
          std::ranges::find(operands, v) == operands.end()) {
        operands.push_back(v);
      }
    }
  }
  return operands;
}

/// Copies ops into a body, where their operands go by other values.
class BodyWriter {
 public:
  explicit BodyWriter(ir::Graph& body) : body_(body) {}

  using Values = std::unordered_map<Value, Value>;

  /// An op of the outer graph; `values` maps outer values to those of the body.
  void add(const ir::Graph& outer, const Op& op, Values& values) {
    for (const Value v : op.inputs) {
      if (!values.contains(v)) {  // a scalar constant that no member read before
        copy(outer.op(v.op), values);
      }
    }
    if (!op.is(ops::kFused)) {
      copy(op, values);
      return;
    }
    const ir::Graph& nested = op.attrs.subgraph("body");
    Values inner;
    const std::vector<OpId> inputs = nested.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inner.emplace(nested.op(inputs[i]).out(), values.at(op.inputs[i]));
    }
    for (const OpId id : nested.order()) {
      if (!nested.op(id).is(ir::kInput)) {
        copy(nested.op(id), inner);
      }
    }
    for (std::size_t i = 0; i < nested.outputs().size(); ++i) {
      values.emplace(op.out(i), inner.at(nested.outputs()[i].value));
    }
  }

 private:
  void copy(const Op& op, Values& values) {
    std::vector<Value> inputs;
    for (const Value v : op.inputs) {
      inputs.push_back(values.at(v));
    }
    const OpId made = body_.append({.def = *op.def,
                                    .inputs = std::move(inputs),
                                    .attrs = op.attrs,
                                    .name = op.name,
                                    .types = op.outputs});
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      values.emplace(op.out(i), body_.op(made).out(i));
    }
  }

  ir::Graph& body_;
};

}  // namespace

BodySize bodySize(const ir::Graph& graph, std::span<const OpId> group) {
  BodySize size{0, operandsOf(graph, group).size()};
  for (const OpId id : group) {
    const Op& op = graph.op(id);
    if (!op.is(ops::kFused)) {
      ++size.ops;
      continue;
    }
    const ir::Graph& nested = op.attrs.subgraph("body");
    for (const OpId inner : nested.order()) {
      const Op& part = nested.op(inner);
      size.ops += part.is(ir::kInput) || part.is(ir::kConstant) ? 0 : 1;
    }
  }
  return size;
}

FusionBody makeBody(const ir::Graph& graph, const ir::Users& users, std::span<const OpId> group) {
  std::vector<OpId> members(group.begin(), group.end());
  std::ranges::stable_sort(  // the anchor first
      members,
      {},
      [&](OpId id) { return !ops::isFusionAnchor(*graph.op(id).def); });
  FusionBody result;
  result.operands = operandsOf(graph, members);
  ir::Graph body("fused");
  BodyWriter::Values values;
  for (std::size_t i = 0; i < result.operands.size(); ++i) {
    const OpId input = body.append({.def = ir::kInput,
                                    .name = fmt::format("in{}", i),
                                    .types = {graph.type(result.operands[i])}});
    values.emplace(result.operands[i], Value{input, 0});
  }
  BodyWriter writer(body);
  for (const OpId id : members) {
    writer.add(graph, graph.op(id), values);
  }
  const std::unordered_set<OpId> inside(group.begin(), group.end());
  for (const OpId id : members) {
    const Op& op = graph.op(id);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const Value value = op.out(i);
      const bool read = std::ranges::any_of(
          users.of(value), [&](const ir::Use& use) { return !inside.contains(use.op); });
      if (read || users.isOutput(value)) {
        body.addOutput(fmt::format("out{}", result.results.size()), values.at(value));
        result.results.push_back(value);
      }
    }
  }
  result.graph = std::make_shared<const ir::Graph>(std::move(body));
  return result;
}

}  // namespace sluice::transforms
