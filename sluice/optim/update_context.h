// UpdateContext: what an update rule builds with. It lists the weights and their finished gradients
// in parameter order, declares optimizer state and step scalars, and keeps the arithmetic types
// apart: a float16 or bfloat16 weight is updated in float32, its state is float32.
#pragma once

#include <map>
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
};

class UpdateContext {
 public:
  /// Ops are made with the builder, in pass Update. Gradients of frozen weights are left out;
  /// throws InvalidArgument for a gradient of no weight, or of another type than the weight's.
  UpdateContext(ir::GraphBuilder& builder, std::vector<Gradient> gradients);

  ir::GraphBuilder& b;

  std::span<const Gradient> gradients() const { return gradients_; }
  /// The same gradients after a rewrite such as clipping.
  void setGradients(std::vector<Gradient> gradients) { gradients_ = std::move(gradients); }

  /// What a weight's update is computed in.
  DType computeType(std::string_view weight) const;
  /// f64 when any weight is, else f32.
  DType scalarType() const { return scalarType_; }

  /// Puts the ops made from now on where the gradient is.
  void placeWith(const Gradient& gradient);
  /// The weight's current value, in its compute type.
  ir::Value weight(std::string_view name);
  /// The gradient in the weight's compute type.
  ir::Value gradient(const Gradient& gradient);
  /// Declares and reads "<weight>.<suffix>", which starts at 0: shape of the weight, compute type.
  ir::Value state(std::string_view weight, std::string_view suffix);
  /// Declares and reads a state scalar of the whole optimizer, in the scalar type.
  ir::Value globalState(std::string_view name, double initial);
  /// Declares and reads, once each, a scalar that the host writes before every step. Its value is
  /// no part of the graph, so a program does not depend on the learning rate.
  ir::Value scalar(std::string_view name);
  /// `value` rounded to the type of the weight and assigned to it.
  void assignWeight(std::string_view weight, ir::Value value);
  void assignState(std::string_view weight, std::string_view suffix, ir::Value value);

 private:
  const ir::Variable& variable(std::string_view name) const;

  std::vector<Gradient> gradients_;
  DType scalarType_ = DType::F32;
  ir::Placement unplaced_;
  std::map<std::string, ir::Value, std::less<>> scalars_;
};

}  // namespace sluice::optim
