#include "sluice/frontends/popart/builder.h"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ops/shape_ops.h"

namespace sluice {
namespace {

std::int32_t placementNumber(std::string_view what, std::int64_t number) {
  if (number < 0 || number > std::numeric_limits<std::int32_t>::max()) {
    raise<InvalidArgument>("{}: expected a number from 0 on, got {}", what, number);
  }
  return static_cast<std::int32_t>(number);
}

}  // namespace

Builder::Builder(onnx::ImportedModel model) : graph_(std::move(model.graph)), b_(graph_) {
  for (onnx::ImportedTensor& tensor : model.tensors) {
    tensors_[std::move(tensor.name)] = {tensor.value, {tensor.value.op}};
  }
}

ir::Value Builder::value(const TensorId& id) const {
  const auto found = tensors_.find(id);
  if (found == tensors_.end()) {
    raise<InvalidArgument>("graph '{}' has no tensor '{}'", graph_.name(), id);
  }
  return found->second.value;
}

std::vector<TensorId> Builder::tensorIds() const {
  std::vector<TensorId> ids;
  for (const auto& [id, made] : tensors_) {
    ids.push_back(id);
  }
  return ids;
}

TensorId Builder::freeName(std::string_view stem) const {
  for (std::size_t i = 0;; ++i) {
    TensorId name = fmt::format("{}:{}", stem, i);
    if (!contains(name)) {
      return name;
    }
  }
}

TensorId Builder::nameFor(const std::string& wanted, std::string_view stem) const {
  if (contains(wanted)) {
    raise<InvalidArgument>("graph '{}' already has a tensor '{}'", graph_.name(), wanted);
  }
  return wanted.empty() ? freeName(stem) : wanted;
}

TensorId Builder::addInputTensor(const TensorType& type, const std::string& name) {
  TensorId id = nameFor(name, "input");
  const ir::Value value = b_.input(id, type);
  tensors_[id] = {value, {value.op}};
  return id;
}

TensorId Builder::addInitializedInputTensor(const HostTensor& value, const std::string& name) {
  TensorId id = nameFor(name, "init");
  graph_.addVariable({.name = id,
                      .type = value.type(),
                      .role = ir::VariableRole::Weight,
                      .trainable = isFloat(value.dtype()),
                      .initializer = ir::Initializer::of(value.clone())});
  const ir::Value read = b_.variable(id);
  tensors_[id] = {read, {read.op}};
  return id;
}

TensorId Builder::addConstant(const HostTensor& value, const std::string& name) {
  TensorId id = nameFor(name, "constant");
  const ir::Value made = b_.constant(value.clone());
  tensors_[id] = {made, {made.op}};
  return id;
}

std::string Builder::getModelProto(onnx::Exact exact) const {
  return getModelProto(onnx::ExportOptions{.exact = exact});
}

std::string Builder::getModelProto(onnx::ExportOptions options) const {
  const std::shared_ptr<nn::StateStore> store = link_->store();
  for (const ir::Variable& variable : graph_.variables()) {
    if (store != nullptr && store->contains(variable.name)) {
      options.values.try_emplace(variable.name, store->read(variable.name));
    }
  }
  for (const auto& [id, made] : tensors_) {
    options.names.try_emplace(made.value, id);
  }
  return onnx::exportModelBytes(graph_, options);
}

void Builder::addOutputTensor(const TensorId& id) {
  const ir::Value result = value(id);
  for (const ir::Output& output : graph_.outputs()) {
    if (output.name == id) {
      raise<InvalidArgument>("tensor '{}' already is an output", id);
    }
  }
  graph_.addOutput(id, result);
}

std::vector<TensorId> Builder::makeMany(std::string_view op,
                                        const std::function<std::vector<ir::Value>()>& append) {
  const std::size_t before = graph_.numOps();
  const auto added = [&] {
    const auto fresh = graph_.order().subspan(before);
    return std::vector<ir::OpId>(fresh.begin(), fresh.end());
  };
  std::vector<ir::Value> values;
  try {
    values = append();
  } catch (Error& error) {
    graph_.remove(added());
    error.at(op);
    throw;
  }
  const std::vector<ir::OpId> ops = added();
  std::vector<TensorId> ids;
  for (const ir::Value result : values) {
    ids.push_back(freeName(op));
    tensors_[ids.back()] = {result, ops};
  }
  return ids;
}

TensorId Builder::make(std::string_view op, const std::function<ir::Value()>& append) {
  return makeMany(op, [&] { return std::vector<ir::Value>{append()}; })[0];
}

std::vector<TensorId> Builder::customOp(const std::vector<TensorId>& inputs,
                                        const ops::CustomOpUse& use) {
  return makeMany(use.name, [&] {
    std::vector<ir::Value> values;
    values.reserve(inputs.size());
    for (const TensorId& id : inputs) {
      values.push_back(value(id));
    }
    return ops::customOp(b_, std::move(values), use);
  });
}

void Builder::place(const TensorId& id, std::int32_t ir::Placement::*field, std::int32_t number) {
  static_cast<void>(value(id));
  for (const ir::OpId op : tensors_.find(id)->second.ops) {
    ir::Placement placement = graph_.op(op).place;
    placement.*field = number;
    graph_.setPlacement(op, placement);
  }
}

void Builder::pipelineStage(const TensorId& id, std::int64_t stage) {
  place(id, &ir::Placement::stage, placementNumber("pipelineStage", stage));
}

PlacementScope Builder::pipelineStage(std::int64_t stage) {
  return {b_, &ir::Placement::stage, placementNumber("pipelineStage", stage)};
}

void Builder::virtualGraph(const TensorId& id, std::int64_t device) {
  place(id, &ir::Placement::device, placementNumber("virtualGraph", device));
}

PlacementScope Builder::virtualGraph(std::int64_t device) {
  return {b_, &ir::Placement::device, placementNumber("virtualGraph", device)};
}

void Builder::outputTensorLocation(const TensorId& id, bool onChip) {
  const ir::Value x = value(id);
  const ir::Placement outer = std::exchange(b_.place, graph_.op(x.op).place);
  ops::tensorLocation(b_, x, onChip);
  b_.place = outer;
}

void Builder::executionPhase(const TensorId& id, std::int64_t phase) {
  place(id, &ir::Placement::phase, placementNumber("executionPhase", phase));
}

PlacementScope Builder::executionPhase(std::int64_t phase) {
  return {b_, &ir::Placement::phase, placementNumber("executionPhase", phase)};
}

}  // namespace sluice
