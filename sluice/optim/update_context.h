// UpdateContext: what an update rule uses to build its ops. It lists the weights and their finished
// gradients in parameter order, and declares optimizer state and step scalars. It also handles
// types: a float16 or bfloat16 weight is updated in float32, and its state is float32 unless the
// rule was told otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::optim {

/// A weight to be updated, and its gradient: summed over micro-batches and replicas, and scaled to
/// the mean or sum that was asked for.
struct Gradient {
  std::string variable;
  ir::Value value;
  /// True: the gradient was already added to the rule's own velocity, and `value` is the replicas'
  /// mean of that velocity.
  bool inVelocity = false;
};

/// How gradients are added to a rule's own velocity.
struct Gathering {
  double factor = 1.0;            ///< multiplies each added gradient, for the mean or the sum
  DType scalarType = DType::F32;  ///< type of step scalars
};

/// Makes every replica keep only a part of the state of large weights.
struct StateSharding {
  std::int32_t replicas = 1;
  std::int64_t minElements = 0;  ///< the state of smaller weights is whole

  bool covers(const Shape& weight) const {
    return replicas > 1 && weight.elements() >= minElements;
  }
};

/// Options for a state variable of one weight.
struct StateOptions {
  std::optional<DType> type = {};  ///< not set: the type in which the weight's update is computed
  double initial = 0.0;
  ir::VariableRole role = ir::VariableRole::OptimizerState;
};

/// The type in which the update of a weight of this type is computed.
DType computeTypeOf(DType weight);

/// Reads, at the builder's current placement, a scalar that the host writes before every step.
/// Declares it in this type if it is new.
ir::Value readStepScalar(ir::GraphBuilder& b, std::string_view name, DType type);

class UpdateContext {
 public:
  /// Makes ops with the builder, in pass Update. Drops gradients of frozen weights. Throws
  /// InvalidArgument for a gradient that belongs to no weight, and for one whose shape differs from
  /// the weight's.
  UpdateContext(ir::GraphBuilder& builder, std::vector<Gradient> gradients);

  ir::GraphBuilder& b;

  /// Applies to state declared from now on.
  void setSharding(const StateSharding& sharding) { sharding_ = sharding; }

  std::span<const Gradient> gradients() const { return gradients_; }
  /// Replaces the gradients by rewritten ones, for instance clipped ones.
  void setGradients(std::vector<Gradient> gradients) { gradients_ = std::move(gradients); }

  /// A factor on the loss scaling that the backward pass began with; an invalid value stands for 1.
  /// If it is set, an update is skipped if its gradients are not finite.
  ir::Value lossFactor() const { return lossFactor_; }
  void setLossFactor(ir::Value factor) { lossFactor_ = factor; }
  /// Whether the update takes place. If it is false, assigned variables keep their values.
  ir::Value guard() const { return guard_; }
  void setGuard(ir::Value guard) { guard_ = guard; }

  /// Sets whether new values of 16-bit weights are rounded stochastically (ops::stochasticCast).
  void setStochasticRounding(bool on) { stochasticRounding_ = on; }

  /// The type in which a weight's update is computed.
  DType computeType(std::string_view weight) const;
  /// f64 if any weight is f64, else f32.
  DType scalarType() const { return scalarType_; }

  /// Places the ops made from now on where the gradient is.
  void placeWith(const Gradient& gradient);
  /// Leaves the placement of the ops made from now on open, for ops that serve all weights.
  void placeAnywhere() { b.place = unplaced_; }
  /// The weight's current value, in its compute type.
  ir::Value weight(std::string_view name);
  /// The gradient in the weight's compute type.
  ir::Value gradient(const Gradient& gradient);
  /// Declares "<weight>.<suffix>" with the shape of the weight, unless it exists, and reads it in
  /// the weight's compute type.
  ir::Value state(std::string_view weight,
                  std::string_view suffix,
                  const StateOptions& options = {});
  /// Declares and reads a state scalar of the whole optimizer, in the scalar type.
  ir::Value globalState(std::string_view name, double initial);
  /// The number of this update, counted from 1. It is part of the optimizer's state and counted
  /// once per update.
  ir::Value step();
  /// Declares and reads, only once for each name, a scalar that the host writes before every step.
  /// Its value is not part of the graph, so a program does not depend on the learning rate.
  ir::Value scalar(std::string_view name);
  /// Rounds `value` to the type of the weight and assigns it to the weight.
  void assignWeight(std::string_view weight, ir::Value value);
  /// Rounds `value` to the type of the state and assigns it to the state.
  void assignState(std::string_view weight, std::string_view suffix, ir::Value value);

 private:
  const ir::Variable& variable(std::string_view name) const;
  /// Assigns `value`, which has the variable's type, if the guard holds.
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

/// Declares "<weight>.<suffix>" with the shape of the weight, unless it exists, and returns its
/// name.
std::string declareState(ir::Graph& graph,
                         const ir::Variable& weight,
                         std::string_view suffix,
                         const StateOptions& options);

}  // namespace sluice::optim
