#include "sluice/ops/body.h"

#include <unordered_map>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

void checkInputs(std::string_view owner, const ir::Graph& body, std::span<const TensorType> types) {
  const std::vector<ir::OpId> inputs = body.inputs();
  if (inputs.size() != types.size()) {
    raise<InvalidArgument>(
        "{}: the body has {} inputs, got {} operands", owner, inputs.size(), types.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ir::Op& input = body.op(inputs[i]);
    if (input.name != fmt::format("in{}", i)) {
      raise<InvalidArgument>("{}: input {} of the body is named '{}'", owner, i, input.name);
    }
    if (input.outputs[0] != types[i]) {
      raise<InvalidArgument>("{}: the body takes {} as input {}, and gets {}",
                             owner,
                             input.outputs[0].str(),
                             i,
                             types[i].str());
    }
  }
}

}  // namespace

bool mayStandInBody(const ir::Op& op) {
  const ir::OpTraits& traits = op.def->traits;
  // Front ends may have ops of their own while they build a graph.
  const bool known = opSet().find(op.def->name) == op.def;
  return known && !traits.effect && !traits.random && !traits.keep && !traits.once &&
         !traits.host && !op.is(ir::kVariable) && !crossesReplicas(*op.def) &&
         !op.is(kReplicaScatter) && !op.is(kRecomputationCheckpoint) && !op.is(kTensorLocation);
}

std::vector<TensorType> checkBody(std::string_view owner,
                                  const ir::Graph& body,
                                  std::span<const TensorType> inputs) {
  checkInputs(owner, body, inputs);
  for (const ir::OpId id : body.order()) {
    if (!mayStandInBody(body.op(id))) {
      raise<InvalidArgument>(
          "{}: {} cannot stand in a body, whose ops have no effect, draw no random numbers and "
          "read no variables",
          owner,
          body.op(id).def->name);
    }
  }
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < body.outputs().size(); ++i) {
    const ir::Output& output = body.outputs()[i];
    if (output.name != fmt::format("out{}", i)) {
      raise<InvalidArgument>("{}: output {} of the body is named '{}'", owner, i, output.name);
    }
    types.push_back(body.type(output.value));
  }
  return types;
}

std::vector<ir::Value> inlineBody(ir::GraphBuilder& b,
                                  const ir::Graph& body,
                                  std::span<const ir::Value> operands) {
  std::unordered_map<ir::Value, ir::Value> values;
  const std::vector<ir::OpId> inputs = body.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values.emplace(body.op(inputs[i]).out(), operands[i]);
  }
  for (const ir::OpId id : body.order()) {
    const ir::Op& member = body.op(id);
    if (member.is(ir::kInput)) {
      continue;
    }
    std::vector<ir::Value> read;
    for (const ir::Value v : member.inputs) {
      read.push_back(values.at(v));
    }
    const ir::OpId made = b.graph().append({.def = *member.def,
                                            .inputs = std::move(read),
                                            .attrs = member.attrs,
                                            .name = member.name,
                                            .place = b.place});
    for (std::size_t i = 0; i < member.outputs.size(); ++i) {
      values.emplace(member.out(i), b.graph().op(made).out(i));
    }
  }
  std::vector<ir::Value> results;
  for (const ir::Output& output : body.outputs()) {
    results.push_back(values.at(output.value));
  }
  return results;
}

std::vector<HostTensor> evaluateBody(const ir::Graph& body,
                                     std::span<const HostTensor> operands,
                                     const ir::RunInfo& run) {
  TensorMap feeds;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    feeds.emplace(fmt::format("in{}", i), operands[i]);
  }
  TensorMap none;
  const TensorMap outputs = evaluate(body, feeds, none, run);
  std::vector<HostTensor> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    results.push_back(outputs.at(fmt::format("out{}", i)));
  }
  return results;
}

ir::Cost costOfBody(const ir::Graph& body) {
  ir::Cost total;
  for (const ir::OpId id : body.order()) {
    const ir::Op& op = body.op(id);
    if (op.is(ir::kInput) || op.is(ir::kConstant) || op.def->traits.view) {
      continue;
    }
    const std::vector<TensorType> types = body.inputTypes(op);
    const ir::Cost cost = costOf(view(op, types));
    total.flops += cost.flops;
    total.bytesRead += cost.bytesRead;
    total.bytesWritten += cost.bytesWritten;
  }
  return total;
}

}  // namespace sluice::ops
