#include "sluice/devices/cpu/kernels/block_body.h"

#include <algorithm>
#include <map>
#include <string>

#include "sluice/base/error.h"

namespace sluice::devices::cpu {
namespace {

/// The number in "in3" or "out0".
std::size_t numberOf(std::string_view name, std::string_view prefix) {
  SLUICE_CHECK(name.starts_with(prefix), "'{}' in the body of fused", name);
  return static_cast<std::size_t>(std::stoul(std::string(name.substr(prefix.size()))));
}

using Numbers = std::map<ir::Value, std::size_t>;

void addInput(BlockBody& body, const TensorType& type, std::size_t source) {
  body.values.push_back(type);
  body.sources.push_back(source);
}

void addOp(BlockBody& body, const ir::Op& op, Numbers& numbers) {
  BodyOp item{op.def->name, &op.attrs, {}, body.values.size()};
  for (const ir::Value value : op.inputs) {
    item.inputs.push_back(numbers.at(value));
  }
  numbers[op.out()] = body.values.size();
  body.values.push_back(op.outputs[0]);
  body.ops.push_back(std::move(item));
}

/// Constants are numbered before results.
void addConstants(BlockBody& body, const ir::Graph& graph, Numbers& numbers) {
  for (const ir::OpId id : graph.order()) {
    const ir::Op& each = graph.op(id);
    if (each.is(ir::kConstant)) {
      numbers[each.out()] = body.values.size();
      body.values.push_back(each.outputs[0]);
      body.constants.push_back(each.attrs.tensor("value"));
    }
  }
}

bool isComputed(const ir::Op& op) {
  return !op.is(ir::kInput) && !op.is(ir::kConstant);
}

}  // namespace

BlockBody singleBody(const ir::OpView& op) {
  BlockBody body;
  BodyOp only{op.def.name, &op.attrs, {}, op.inputs.size()};
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    addInput(body, op.inputs[i], i);
    only.inputs.push_back(i);
  }
  body.values.push_back(op.outputs[0]);
  body.ops.push_back(std::move(only));
  body.outputs = {op.inputs.size()};
  body.targets = {0};
  if (op.def.name == "broadcast_to" && byteSize(op.inputs[0].dtype) == 2) {
    body.values[0].dtype = DType::U16;  // moved as it is
    body.values[1].dtype = DType::U16;
  }
  return body;
}

std::optional<BlockBody> fusedBody(const ir::OpView& op) {
  const ir::Graph& graph = op.attrs.subgraph("body");
  BlockBody body;
  Numbers numbers;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    addInput(body, op.inputs[i], i);
  }
  for (const ir::OpId id : graph.inputs()) {
    numbers[graph.op(id).out()] = numberOf(graph.op(id).name, "in");
  }
  addConstants(body, graph, numbers);
  for (const ir::OpId id : graph.order()) {
    const ir::Op& each = graph.op(id);
    if (!isComputed(each)) {
      continue;
    }
    if (!each.def->traits.elementwise && each.def->name != "identity") {
      return std::nullopt;
    }
    addOp(body, each, numbers);
  }
  body.outputs.resize(graph.outputs().size());
  for (const ir::Output& output : graph.outputs()) {
    body.outputs.at(numberOf(output.name, "out")) = numbers.at(output.value);
    body.targets.push_back(body.targets.size());
  }
  return body;
}

Epilogue epilogueOf(const ir::OpView& op, const ir::Op& anchor) {
  const ir::Graph& graph = op.attrs.subgraph("body");
  Epilogue result;
  BlockBody& body = result.body;
  Numbers numbers;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& each = graph.op(id);
    if (!isComputed(each) || each.id == anchor.id) {
      continue;
    }
    for (const ir::Value value : each.inputs) {
      const ir::Op& producer = graph.op(value.op);
      if (producer.is(ir::kInput) && !numbers.contains(value)) {
        numbers[value] = body.values.size();
        addInput(body, producer.outputs[0], numberOf(producer.name, "in"));
      }
    }
  }
  numbers[anchor.out()] = body.values.size();
  addInput(body, anchor.outputs[0], BlockBody::kAnchor);
  addConstants(body, graph, numbers);
  for (const ir::OpId id : graph.order()) {
    const ir::Op& each = graph.op(id);
    if (isComputed(each) && each.id != anchor.id) {
      addOp(body, each, numbers);
    }
  }
  for (const ir::Output& output : graph.outputs()) {
    const std::size_t target = numberOf(output.name, "out");
    if (output.value == anchor.out() && !result.kept) {
      result.kept = target;
    } else {
      body.outputs.push_back(numbers.at(output.value));
      body.targets.push_back(target);
    }
  }
  return result;
}

}  // namespace sluice::devices::cpu
