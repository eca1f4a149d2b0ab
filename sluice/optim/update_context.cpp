#include "sluice/optim/update_context.h"

#include <algorithm>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::optim {
namespace {

constexpr std::string_view kStep = "optimizer.step";

std::string stateName(std::string_view weight, std::string_view suffix) {
  return fmt::format("{}.{}", weight, suffix);
}

ir::Variable stateVariable(const ir::Variable& weight,
                           std::string_view suffix,
                           const StateOptions& options) {
  return {.name = stateName(weight.name, suffix),
          .type = {options.type.value_or(computeTypeOf(weight.type.dtype)), weight.type.shape},
          .role = options.role,
          .trainable = false,
          .initializer = ir::Initializer::constant(options.initial)};
}

}  // namespace

DType computeTypeOf(DType weight) {
  return weight == DType::F64 ? DType::F64 : DType::F32;
}

ir::Value readStepScalar(ir::GraphBuilder& b, std::string_view name, DType type) {
  b.graph().addVariable({.name = std::string(name),
                         .type = {type, Shape{}},
                         .role = ir::VariableRole::StepScalar,
                         .trainable = false,
                         .initializer = {}});
  return b.variable(name);
}

std::string declareState(ir::Graph& graph,
                         const ir::Variable& weight,
                         std::string_view suffix,
                         const StateOptions& options) {
  ir::Variable state = stateVariable(weight, suffix, options);
  std::string name = state.name;
  graph.addVariable(std::move(state));
  return name;
}

UpdateContext::UpdateContext(ir::GraphBuilder& builder, std::vector<Gradient> gradients)
    : b(builder), gradients_(std::move(gradients)) {
  b.place.pass = ir::Pass::Update;
  unplaced_ = b.place;
  for (const Gradient& gradient : gradients_) {
    const ir::Variable& weight = variable(gradient.variable);
    if (weight.role != ir::VariableRole::Weight || !isFloat(weight.type.dtype)) {
      raise<InvalidArgument>("variable '{}' ({}, {}) is no float weight; it cannot be optimized",
                             weight.name,
                             name(weight.role),
                             weight.type.str());
    }
    if (b.type(gradient.value).shape != weight.type.shape || !isFloat(b.dtype(gradient.value))) {
      raise<InvalidArgument>("the gradient of '{}' is {}, the weight {}",
                             weight.name,
                             b.type(gradient.value).str(),
                             weight.type.str());
    }
    if (weight.type.dtype == DType::F64) {
      scalarType_ = DType::F64;
    }
  }
  std::erase_if(gradients_, [&](const Gradient& g) { return !variable(g.variable).trainable; });
}

const ir::Variable& UpdateContext::variable(std::string_view name) const {
  const ir::Variable* found = b.graph().findVariable(name);
  if (found == nullptr) {
    raise<InvalidArgument>("graph '{}' has no variable '{}'", b.graph().name(), name);
  }
  return *found;
}

DType UpdateContext::computeType(std::string_view weight) const {
  return computeTypeOf(variable(weight).type.dtype);
}

void UpdateContext::placeWith(const Gradient& gradient) {
  b.place = b.graph().op(gradient.value.op).place;
  b.place.pass = ir::Pass::Update;
}

ir::Value UpdateContext::weight(std::string_view name) {
  return ops::cast(b, b.variable(name), computeType(name));
}

ir::Value UpdateContext::gradient(const Gradient& gradient) {
  return ops::cast(b, gradient.value, computeType(gradient.variable));
}

ir::Value UpdateContext::state(std::string_view weight,
                               std::string_view suffix,
                               const StateOptions& options) {
  const Shape whole = variable(weight).type.shape;
  if (!sharding_.covers(whole)) {
    const std::string name = declareState(b.graph(), variable(weight), suffix, options);
    return ops::cast(b, b.variable(name), computeType(weight));
  }
  ir::Variable part = stateVariable(variable(weight), suffix, options);
  part.split = {whole, sharding_.replicas};
  part.type.shape = Shape{ir::partOf(whole.elements(), sharding_.replicas)};
  b.graph().addVariable(part);
  return ops::cast(b, ops::replicaGather(b, b.variable(part.name), whole), computeType(weight));
}

ir::Value UpdateContext::globalState(std::string_view name, double initial) {
  b.graph().addVariable({.name = std::string(name),
                         .type = {scalarType_, Shape{}},
                         .role = ir::VariableRole::OptimizerState,
                         .trainable = false,
                         .initializer = ir::Initializer::constant(initial)});
  return b.variable(name);
}

ir::Value UpdateContext::step() {
  if (!step_.valid()) {
    const ir::Placement place = std::exchange(b.place, unplaced_);
    step_ = ops::add(b, globalState(kStep, 0.0), b.scalar(scalarType_, 1.0));
    assign(std::string(kStep), step_);
    b.place = place;
  }
  return step_;
}

ir::Value UpdateContext::scalar(std::string_view name) {
  const auto found = scalars_.find(name);
  if (found != scalars_.end()) {
    return found->second;
  }
  const ir::Placement place = std::exchange(b.place, unplaced_);
  const ir::Value value = readStepScalar(b, name, scalarType_);
  b.place = place;
  scalars_.emplace(name, value);
  return value;
}

ir::Value UpdateContext::rounded(const std::string& name, ir::Value value) {
  return ops::cast(b, value, variable(name).type.dtype);
}

void UpdateContext::assign(const std::string& name, ir::Value value) {
  if (variable(name).split) {
    value = ops::replicaScatter(b, value, sharding_.replicas);
  }
  b.assign(name, guard_.valid() ? ops::where(b, guard_, value, b.variable(name)) : value);
}

void UpdateContext::assignWeight(std::string_view weight, ir::Value value) {
  const std::string name(weight);
  const TensorType type = variable(name).type;
  const bool half = type.dtype == DType::F16 || type.dtype == DType::BF16;
  value = half && stochasticRounding_ ? ops::stochasticCast(b, value, step(), type.dtype)
                                      : rounded(name, value);
  if (sharding_.covers(type.shape)) {
    // Each replica computes the part that it has the state for.
    value = ops::replicaGather(b, ops::replicaScatter(b, value, sharding_.replicas), type.shape);
  }
  assign(name, value);
}

void UpdateContext::assignState(std::string_view weight, std::string_view suffix, ir::Value value) {
  const std::string name = stateName(weight, suffix);
  assign(name, rounded(name, value));
}

}  // namespace sluice::optim
