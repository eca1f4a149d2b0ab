#include "sluice/ops/cut_out.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include <fmt/format.h>

#include "sluice/ops/body.h"

namespace sluice::ops {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;

bool isLeaf(const Op& op) {
  return op.is(ir::kInput) || op.is(ir::kConstant) || op.is(ir::kVariable);
}

}  // namespace

CutOut::CutOut(const ir::Graph& graph, std::size_t first, std::size_t end) : graph_(graph) {
  for (const OpId id : graph.order().first(std::min(end, graph.numOps())).subspan(first)) {
    const Op& op = graph.op(id);
    if (isLeaf(op)) {
      continue;
    }
    ops_.push_back(id);
    members_.insert(id);
    onePlace_ = onePlace_ && (!place_ || *place_ == op.place);
    place_ = op.place;
  }
}

bool CutOut::fits() const {
  return onePlace_ &&
         std::ranges::all_of(ops_, [&](OpId id) { return mayStandInBody(graph_.op(id)); });
}

bool CutOut::isCopied(Value value) const {
  const Op& op = graph_.op(value.op);
  return op.is(ir::kConstant) && op.outputs[0].shape.elements() == 1;
}

void CutOut::addCaptured(std::span<const Value> results, std::vector<Value>& captured) const {
  const auto add = [&](Value v) {
    if (!members_.contains(v.op) && !isCopied(v) &&
        std::ranges::find(captured, v) == captured.end()) {
      captured.push_back(v);
    }
  };
  for (const OpId id : ops_) {
    std::ranges::for_each(graph_.op(id).inputs, add);
  }
  std::ranges::for_each(results, add);
}

ir::GraphRef CutOut::body(std::span<const Value> inputs, std::span<const Value> results) const {
  ir::Graph body("body");
  std::unordered_map<Value, Value> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const OpId input = body.append(
        {.def = ir::kInput, .name = fmt::format("in{}", i), .types = {graph_.type(inputs[i])}});
    values.emplace(inputs[i], Value{input, 0});
  }
  const auto copy = [&](const Op& op) {
    std::vector<Value> read;
    for (const Value v : op.inputs) {
      read.push_back(values.at(v));
    }
    const OpId made = body.append(
        {.def = *op.def, .inputs = std::move(read), .attrs = op.attrs, .name = op.name});
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      values.emplace(op.out(i), body.op(made).out(i));
    }
  };
  const auto takeConstants = [&](std::span<const Value> read) {
    for (const Value v : read) {
      if (!values.contains(v) && isCopied(v)) {
        copy(graph_.op(v.op));
      }
    }
  };
  for (const OpId id : ops_) {
    takeConstants(graph_.op(id).inputs);
    copy(graph_.op(id));
  }
  takeConstants(results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    body.addOutput(fmt::format("out{}", i), values.at(results[i]));
  }
  return std::make_shared<const ir::Graph>(std::move(body));
}

}  // namespace sluice::ops
