#include "sluice/ops/interpreter.h"

#include <cstring>
#include <unordered_map>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"

namespace sluice::ops {
namespace {

using Values = std::unordered_map<ir::Value, HostTensor>;

const HostTensor& lookUp(const TensorMap& map,
                         std::string_view name,
                         const TensorType& type,
                         std::string_view what) {
  const auto found = map.find(name);
  if (found == map.end()) {
    raise<InvalidArgument>("{} '{}' has no value", what, name);
  }
  if (found->second.type() != type) {
    raise<InvalidArgument>(
        "{} '{}' is {}, its value {}", what, name, type.str(), found->second.type().str());
  }
  return found->second;
}

/// The modes of assign, as SPEC's table of reductions has them.
HostTensor assigned(const std::string& mode,
                    const HostTensor& old,
                    const HostTensor& value,
                    std::int64_t microBatchInRound) {
  if (mode == "set" || (mode != "add" && microBatchInRound == 0)) {
    return value.clone();
  }
  HostTensor result(value.type());
  const auto f = static_cast<double>(microBatchInRound);
  for (std::int64_t i = 0; i < value.shape().elements(); ++i) {
    result.set(i,
               mode == "mean" ? old.at(i) * (f / (f + 1)) + value.at(i) / (f + 1)
                              : old.at(i) + value.at(i));
  }
  return result;
}

/// An op taken apart; its operands are the graph's inputs in0, in1, ..., its results out0, out1,
/// ...
ir::Graph partsOf(const ir::OpView& op) {
  ir::Graph graph(std::string(op.def.name));
  ir::GraphBuilder builder(graph);
  std::vector<ir::Value> values;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    values.push_back(builder.input(fmt::format("in{}", i), op.inputs[i]));
  }
  const std::vector<ir::Value> results = op.def.decompose(builder, op, values);
  for (std::size_t i = 0; i < results.size(); ++i) {
    graph.addOutput(fmt::format("out{}", i), results[i]);
  }
  return graph;
}

std::vector<HostTensor> decomposed(const ir::OpView& op,
                                   const std::vector<HostTensor>& inputs,
                                   ir::RunInfo run) {
  const ir::Graph graph = partsOf(op);
  TensorMap feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    feeds.emplace(fmt::format("in{}", i), inputs[i]);
  }
  TensorMap none;
  const TensorMap outputs = evaluate(graph, feeds, none, run);
  std::vector<HostTensor> tensors;
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    tensors.push_back(outputs.at(fmt::format("out{}", i)));
  }
  return tensors;
}

}  // namespace

std::vector<HostTensor> evaluate(const ir::OpDef& def,
                                 const ir::Attrs& attrs,
                                 const std::vector<HostTensor>& inputs,
                                 ir::RunInfo run) {
  std::vector<TensorType> inputTypes;
  std::vector<const void*> in;
  for (const HostTensor& tensor : inputs) {
    inputTypes.push_back(tensor.type());
    in.push_back(tensor.bytes());
  }
  const ir::Attrs complete = ir::completeAttrs(def, attrs);
  const std::vector<TensorType> outputTypes = def.infer({def, complete, inputTypes, {}});
  const ir::OpView op{def, complete, inputTypes, outputTypes};
  if (def.reference == nullptr) {
    SLUICE_CHECK(def.decompose != nullptr, "{} has neither reference nor decompose", def.name);
    return decomposed(op, inputs, run);
  }
  std::vector<HostTensor> results;
  std::vector<void*> out;
  results.reserve(outputTypes.size());
  out.reserve(outputTypes.size());
  for (const TensorType& type : outputTypes) {
    out.push_back(results.emplace_back(type).bytes());
  }
  def.reference({op, in, out, run});
  return results;
}

double workOf(const ir::OpDef& def, const ir::Attrs& attrs, const std::vector<TensorType>& inputs) {
  const ir::Attrs complete = ir::completeAttrs(def, attrs);
  const std::vector<TensorType> outputs = def.infer({def, complete, inputs, {}});
  const ir::OpView op{def, complete, inputs, outputs};
  if (def.reference != nullptr) {
    const ir::Cost cost = ir::costOf(op);
    return cost.flops + cost.bytesRead + cost.bytesWritten;
  }
  SLUICE_CHECK(def.decompose != nullptr, "{} has neither reference nor decompose", def.name);
  const ir::Graph graph = partsOf(op);
  double work = 0;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& part = graph.op(id);
    if (!part.is(ir::kInput) && !part.is(ir::kConstant)) {
      work += workOf(*part.def, part.attrs, graph.inputTypes(part));
    }
  }
  return work;
}

TensorMap evaluate(const ir::Graph& graph,
                   const TensorMap& inputs,
                   TensorMap& variables,
                   ir::RunInfo run) {
  Values values;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.is(ir::kInput)) {
      values.insert_or_assign(op.out(), lookUp(inputs, op.name, op.outputs[0], "input"));
    } else if (op.is(ir::kVariable)) {
      const std::string& name = op.attrs.text("var");
      values.insert_or_assign(op.out(), lookUp(variables, name, op.outputs[0], "variable").clone());
    } else if (op.is(ir::kConstant)) {
      values.insert_or_assign(op.out(), op.attrs.tensor("value"));
    } else if (op.is(ir::kAssign)) {
      const std::string& name = op.attrs.text("var");
      const HostTensor& value = values.at(op.inputs[0]);
      const HostTensor& old = lookUp(variables, name, value.type(), "variable");
      variables.insert_or_assign(
          name, assigned(op.attrs.text("mode"), old, value, run.microBatchInRound));
    } else {
      std::vector<HostTensor> operands;
      for (const ir::Value v : op.inputs) {
        operands.push_back(values.at(v));
      }
      std::vector<HostTensor> results = evaluate(*op.def, op.attrs, operands, run);
      for (std::size_t i = 0; i < results.size(); ++i) {
        values.insert_or_assign(op.out(i), std::move(results[i]));
      }
    }
  }
  TensorMap outputs;
  for (const ir::Output& output : graph.outputs()) {
    outputs.insert_or_assign(output.name, values.at(output.value));
  }
  return outputs;
}

}  // namespace sluice::ops
