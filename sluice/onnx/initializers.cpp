// What initializers become. One that an op computes with is a weight; one that a batch norm reads
// as a statistic is state, which takes no gradient. Exporters merge equal initializers and give the
// others as Identity of the one that is left, so one initializer may be the mean of one batch norm
// and the bias of another:
//
//     bn1.running_mean = [0, 0]                BatchNormalization(x, .., bn1.bias,
//     bn1.running_mean, ..) bn1.bias = Identity(bn1.running_mean)
//
// gives a buffer "bn1.running_mean" and a weight "bn1.bias".
#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/base/name_pattern.h"
#include "sluice/onnx/graph_importer.h"
#include "sluice/onnx/identity_marks.h"
#include "sluice/onnx/model_writer.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/eliminate_dead.h"

namespace sluice::onnx {
namespace {

bool isTrainedWeight(const ir::Graph& graph, const std::string& name) {
  const ir::Variable& variable = *graph.findVariable(name);
  return variable.role == ir::VariableRole::Weight && variable.trainable;
}

bool matchesAny(std::string_view name, std::span<const std::string> patterns) {
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return matchesPattern(name, pattern); });
}

}  // namespace

void GraphImporter::requireInitializers(std::span<const std::string> patterns,
                                        std::string_view option) const {
  for (const std::string& pattern : patterns) {
    const auto named = [&](const pb::TensorProto& initializer) {
      return matchesPattern(initializer.name(), pattern);
    };
    if (std::ranges::none_of(model_.graph().initializer(), named)) {
      raise<InvalidArgument>(
          "ImportOptions::{}: the model has no initializer '{}'", option, pattern);
    }
  }
}

bool GraphImporter::isFrozen(const pb::TensorProto& initializer) const {
  return initializer.doc_string() == kFrozenMark || matchesAny(initializer.name(), options_.frozen);
}

bool GraphImporter::isBuffer(const pb::TensorProto& initializer) const {
  return initializer.doc_string() == kBufferMark ||
         matchesAny(initializer.name(), options_.buffers);
}

void GraphImporter::findStatistics(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes) {
  for (const pb::NodeProto& node : nodes) {
    for (int i = 3; node.op_type() == "BatchNormalization" && i < node.input_size(); ++i) {
      statistics_.insert(node.input(i));
    }
  }
}

const Scope::Tensor* GraphImporter::aliased(const pb::NodeProto& node, Scope& scope) {
  const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
  if (!standard || node.op_type() != "Identity" || node.input_size() != 1 ||
      node.output_size() != 1 || node.output(0).empty() || findMark(node.doc_string()) != nullptr) {
    return nullptr;
  }
  const Scope::Tensor* tensor = find(scope, node.input(0));
  return tensor != nullptr && tensor->initializer != nullptr ? tensor : nullptr;
}

HostTensor GraphImporter::tensorOf(const pb::TensorProto& proto) {
  const auto known = tensors_.find(&proto);
  return known != tensors_.end()
             ? known->second
             : tensors_.emplace(&proto, toHostTensor(proto, external_)).first->second;
}

Value GraphImporter::addVariable(std::string name,
                                 HostTensor value,
                                 ir::VariableRole role,
                                 bool trainable) {
  // Bodies may use a name again for another tensor.
  const std::string wanted = name;
  for (int& same = sameNames_.try_emplace(wanted, 1).first->second;
       graph_.findVariable(name) != nullptr;) {
    name = fmt::format("{}_{}", wanted, ++same);
  }
  const TensorType type = value.type();
  graph_.addVariable({.name = name,
                      .type = type,
                      .role = role,
                      .trainable = trainable,
                      .initializer = ir::Initializer::of(std::move(value))});
  return builder_.variable(name);
}

/// Its own, unless a batch norm reads the initializer as a statistic, which then has that name.
std::string GraphImporter::weightName(const Scope::Tensor& tensor) const {
  const std::string& own = tensor.initializer->name();
  if (!statistics_.contains(own)) {
    return own;
  }
  const bool named = !tensor.alias.empty() && !statistics_.contains(tensor.alias);
  return named ? tensor.alias : own + ".weight";
}

Value GraphImporter::read(Scope::Tensor& tensor) {
  if (tensor.value.valid()) {
    return tensor.value;
  }
  Value& known = initializers_[tensor.initializer];
  if (!known.valid() && isBuffer(*tensor.initializer)) {
    known = readBuffer(tensor, tensor.initializer->name());
  } else if (!known.valid()) {
    HostTensor value = tensorOf(*tensor.initializer);
    const bool variable = isFloat(value.dtype()) || tensor.initializer->doc_string() == kFrozenMark;
    known = variable ? addVariable(weightName(tensor),
                                   std::move(value),
                                   ir::VariableRole::Weight,
                                   !isFrozen(*tensor.initializer))
                     : builder_.constant(std::move(value));
  }
  tensor.value = tensor.alias.empty() ? known : ops::identity(builder_, known);
  return tensor.value;
}

Value GraphImporter::readBuffer(Scope::Tensor& tensor, const std::string& name) {
  if (tensor.initializer == nullptr) {
    return bufferOf(tensor.value, name);
  }
  // What is said to be a buffer is one, under whatever names it is read.
  const bool marked = isBuffer(*tensor.initializer);
  const std::string alias = marked ? "" : tensor.alias;
  Value& known = buffers_[{tensor.initializer, alias}];
  if (!known.valid()) {
    known = addVariable(alias.empty() ? tensor.initializer->name() : alias,
                        tensorOf(*tensor.initializer),
                        ir::VariableRole::Buffer,
                        false);
  }
  tensor.buffer = known;
  return known;
}

std::set<std::string> GraphImporter::weightsOf(Value value, bool& others) const {
  std::set<std::string> weights;
  std::unordered_set<ir::OpId> seen;
  std::vector<ir::OpId> open = {value.op};
  while (!open.empty()) {
    const ir::Op& op = graph_.op(open.back());
    open.pop_back();
    if (!seen.insert(op.id).second) {
      continue;
    }
    if (op.is(ir::kVariable)) {
      const std::string& name = op.attrs.text("var");
      const bool trained = isTrainedWeight(graph_, name);
      others = others || !trained;
      if (trained) {
        weights.insert(name);
      }
    }
    for (const Value operand : op.inputs) {
      open.push_back(operand.op);
    }
  }
  return weights;
}

Value GraphImporter::bufferOf(Value value, const std::string& name) {
  if (isComputed(value)) {
    return value;
  }
  bool others = false;
  if (!weightsOf(value, others).empty()) {
    const Value standIn = ops::identity(builder_, value);
    pending_.push_back({standIn.op, name});
    return standIn;
  }
  if (others) {
    return value;  // of state and constants
  }
  std::vector<std::string> inputs;
  return addVariable(name, *evaluate(value, inputs), ir::VariableRole::Buffer, false);
}

/// The ops whose results only statistics use.
std::unordered_set<ir::OpId> GraphImporter::opsForStatistics() const {
  std::unordered_set<ir::OpId> ops;
  for (const Pending& pending : pending_) {
    ops.insert(pending.op);
  }
  const ir::Users users = graph_.users();
  for (std::size_t i = graph_.numOps(); i-- > 0;) {
    const ir::Op& op = graph_.op(graph_.order()[i]);
    const auto forStatistics = [&](std::size_t out) {
      return !users.isOutput(op.out(out)) &&
             std::ranges::all_of(users.of(op.out(out)),
                                 [&](const ir::Use& use) { return ops.contains(use.op); });
    };
    bool all = !op.outputs.empty();
    for (std::size_t out = 0; out < op.outputs.size(); ++out) {
      all = all && forStatistics(out);
    }
    if (all) {
      ops.insert(op.id);
    }
  }
  return ops;
}

void GraphImporter::settleStatistics() {
  std::erase_if(pending_, [&](const Pending& each) { return !graph_.contains(each.op); });
  if (pending_.empty()) {
    return;
  }
  const std::unordered_set<ir::OpId> forStatistics = opsForStatistics();
  std::set<std::string> shared;
  for (const ir::OpId id : graph_.order()) {
    const ir::Op& op = graph_.op(id);
    if ((op.is(ir::kVariable) || op.is(ir::kAssign)) && !forStatistics.contains(id)) {
      shared.insert(op.attrs.text("var"));
    }
  }
  std::unordered_map<Value, Value> settled;
  for (const Pending& pending : pending_) {
    const ir::Op& op = graph_.op(pending.op);
    bool others = false;
    bool own = false;
    for (const std::string& weight : weightsOf(op.inputs[0], others)) {
      if (shared.contains(weight)) {
        own = true;
        continue;
      }
      ir::Variable state = *graph_.findVariable(weight);
      state.role = ir::VariableRole::Buffer;
      state.trainable = false;
      graph_.replaceVariable(std::move(state));
    }
    Value value = op.inputs[0];
    if (own) {
      std::vector<std::string> inputs;
      const Value made =
          addVariable(pending.name, *evaluate(value, inputs), ir::VariableRole::Buffer, false);
      const ir::Op& read = graph_.op(made.op);
      value = {graph_.insertBefore(pending.op,
                                   {.def = ir::kVariable,
                                    .attrs = read.attrs,
                                    .name = read.name,
                                    .types = {read.outputs[0]}}),
               0};
    }
    settled.emplace(op.out(), value);
  }
  graph_.replaceUses(settled);
  transforms::eliminateDead(graph_);
}

}  // namespace sluice::onnx
