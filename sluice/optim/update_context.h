// UpdateContext: what an update rule builds with. It lists the weights and their finished gradients
// in parameter order, declares optimizer state and step scalars, and keeps the arithmetic types
// apart: a float16 or bfloat16 weight is updated in float32, its state is float32 unless the rule
// was told otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/graph_builder.h"

namespace sluice::optim {

/// One weight to be updated and its gradient: summed over micro-batches and replicas and scaled to
/// the mean or sum that was asked for.
struct Gradient {
  std::string variable;
  ir::Value value;
  /// Added to the rule's own velocity already: this is the replicas' mean of that.
  bool inVelocity = false;
};

/// How gradients are added to a rule's own velocity.
struct Gathering {
  double factor = 1.0;            ///< on a gradient added to a velocity, for the mean or the sum
  DType scalarType = DType::F32;  ///< of step scalars
};

/// Of the state of large weights every replica keeps a part only.
struct StateSharding {
  std::int32_t replicas = 1;
  std::int64_t minElements = 0;  ///< smaller ones are whole

  bool covers(const Shape& weight) const {
    return replicas > 1 && weight.elements() >= minElements;
  }
};

/// Optimizer state of one weight.
struct StateOptions {
  std::optional<DType> type = {};  ///< not given: what the weight's update is computed in
  double initial = 0.0;
  ir::VariableRole role = ir::VariableRole::OptimizerState;
};

/// What the update of a weight of this type is computed in.
DType computeTypeOf(DType weight);

/// Reads a scalar that the host writes before every step, where the builder is placed; declares it
/// in this type if it is new.
ir::Value readStepScalar(ir::GraphBuilder& b, std::string_view name, DType type);

class UpdateContext {
 public:
  /// Ops are made with the builder, in pass Update. Gradients of frozen weights are left out;
  /// throws InvalidArgument for a gradient of no weight, or of another shape than the weight's.
  UpdateContext(ir::GraphBuilder& builder, std::vector<Gradient> gradients);

  ir::GraphBuilder& b;

  /// For state declared from now on.
  void setSharding(const StateSharding& sharding) { sharding_ = sharding; }

  std::span<const Gradient> gradients() const { return gradients_; }
  /// The same gradients after a rewrite such as clipping.
  void setGradients(std::vector<Gradient> gradients) { gradients_ = std::move(gradients); }

  /// A factor on the loss scaling that the backward pass was begun with; no value: 1. With one, an
  /// update is left out if its gradients are not finite.
  ir::Value lossFactor() const { return lossFactor_; }
  void setLossFactor(ir::Value factor) { lossFactor_ = factor; }
  /// Whether the update takes place: where this does not hold, what is assigned stays as it was.
  ir::Value guard() const { return guard_; }
  void setGuard(ir::Value guard) { guard_ = guard; }

  /// New values of 16-bit weights are rounded at random (ops::stochasticCast).
  void setStochasticRounding(bool on) { stochasticRounding_ = on; }

  /// What a weight's update is computed in.
  DType computeType(std::string_view weight) const;
  /// f64 when any weight is, else f32.
  DType scalarType() const { return scalarType_; }

  /// Puts the ops made from now on where the gradient is.
  void placeWith(const Gradient& gradient);
  /// Puts them where they serve all weights alike.
  void placeAnywhere() { b.place = unplaced_; }
  /// The weight's current value, in its compute type.
  ir::Value weight(std::string_view name);
  /// The gradient in the weight's compute type.
  ir::Value gradient(const Gradient& gradient);
  /// Declares "<weight>.<suffix>", unless it is there, with the shape of the weight, and reads it
  /// in the weight's compute type.
  ir::Value state(std::string_view weight,
                  std::string_view suffix,
                  const StateOptions& options = {});
  /// Declares and reads a state scalar of the whole optimizer, in the scalar type.
  ir::Value globalState(std::string_view name, double initial);
  /// The number of this update, from 1; a state of the optimizer, counted once per update.
  ir::Value step();
  /// Declares and reads, once each, a scalar that the host writes before every step. Its value is
  /// no part of the graph, so a program does not depend on the learning rate.
  ir::Value scalar(std::string_view name);
  /// `value` rounded to the type of the weight and assigned to it.
  void assignWeight(std::string_view weight, ir::Value value);
  /// `value` rounded to the type of the state.
  void assignState(std::string_view weight, std::string_view suffix, ir::Value value);

 private:
  const ir::Variable& variable(std::string_view name) const;
  /// `value`, which is of the variable's type, under the guard.
  void assign(const std::string& name, ir::Value value);
  ir::Value rounded(const std::string& name, ir::Value value);

  std::vector<Gradient> gradients_;
  StateSharding sharding_;
  ir::Value lossFactor_;
  ir::Value guard_;
  bool stochasticRounding_ = false;
  DType scalarType_ = DType::F32;
  ir::Placement unplaced_;
  ir::Value step_;
  std::map<std::string, ir::Value, std::less<>> scalars_;
};

/// Declares "<weight>.<suffix>" with the shape of the weight, unless it is there; returns its name.
std::string declareState(ir::Graph& graph,
                         const ir::Variable& weight,
                         std::string_view suffix,
                         const StateOptions& options);

}  // namespace sluice::optim
