// Optimizer: an update rule built from ops, and its attributes. What a user changes during training
// (learning rate, weight decay, momentum, betas ...) is a variable attribute: a step scalar that
// the host writes before each step, so nothing is recompiled. A constant attribute is part of the
// compiled program. What changes the rule itself (nesterov, bias correction, the types of the
// state) is fixed when the optimizer is made.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/optim/update_context.h"

namespace sluice::optim {

/// Which weights belong to a group, by the variable's name.
using ParameterFilter = std::function<bool(std::string_view variable)>;
/// Exactly these names.
ParameterFilter named(std::vector<std::string> variables);
/// Names that end so, such as ".bias".
ParameterFilter endingWith(std::string suffix);

/// In which type the gradients of a weight are accumulated; nothing: in the weight's own.
using AccumulationType = std::function<std::optional<DType>(const ir::Variable& weight)>;

/// Attributes by name: "lr", "weight_decay", "momentum", "beta1" ...
using Attributes = std::map<std::string, double, std::less<>>;

constexpr double kNoGradNorm = std::numeric_limits<double>::infinity();

/// What every rule takes for all its groups.
struct CommonOptions {
  double lossScaling = 1.0;          ///< 1: none
  double maxGradNorm = kNoGradNorm;  ///< infinite: no clipping
  std::optional<DType> accumType;    ///< see Optimizer::accumulatorType
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::string name() const = 0;
  virtual std::unique_ptr<Optimizer> clone() const = 0;

  /// Weights that match get their own attributes, those of group 0 where none are given; returns
  /// the group's number. Group 0 has all weights that no other group takes; of several that match,
  /// the last one counts. Throws InvalidArgument for an attribute of the whole optimizer.
  std::size_t addGroup(ParameterFilter filter, const Attributes& attributes);
  std::size_t numGroups() const { return groups_.size(); }
  std::size_t groupOf(std::string_view variable) const;

  /// An attribute of a group by name, or of the whole optimizer: "loss_scaling", "max_grad_norm".
  /// Throws InvalidArgument for a name that this rule does not have or a value out of its range.
  double get(std::string_view attribute, std::size_t group = 0) const;
  void set(std::string_view attribute, double value, std::size_t group = 0);
  /// All of a group; those of the whole optimizer are with group 0.
  Attributes attributes(std::size_t group = 0) const;
  double lr(std::size_t group = 0) const { return get("lr", group); }
  void setLr(double lr, std::size_t group = 0) { set("lr", lr, group); }

  /// In all groups. A constant is folded into the program; Model::setOptimizer refuses another
  /// value of it once that is compiled. By default only those are constant whose part of the rule
  /// is left out: a momentum of 0, a loss scaling of 1, an infinite gradient norm. Throws
  /// InvalidArgument for an unknown name, listing those there are, and for a constant "lr".
  Optimizer& markAsConstant(std::string_view attribute) { return mark(attribute, true); }
  Optimizer& markAsVariable(std::string_view attribute) { return mark(attribute, false); }
  bool isConstant(std::string_view attribute, std::size_t group = 0) const;
  /// The rule of PopTorch's own optimizers: every attribute that has its default value is constant,
  /// betas and alpha always.
  Optimizer& markDefaultsAsConstant();

  /// Scales all gradients so that their global norm is at most this; infinite: not at all.
  void setMaxGradNorm(double maximum) { set("max_grad_norm", maximum); }
  std::optional<double> maxGradNorm() const;

  /// Accumulates gradients in a type for each weight. They arrive at the rule in that type: where
  /// it is not the weight's, a model with gradient accumulation is refused unless the gradients are
  /// cast.
  void setAccumulationType(AccumulationType type) { accumulationType_ = std::move(type); }
  void castGradients(bool on = true) { castGradients_ = on; }
  /// accumType, or float32 (float64 for such weights); what setAccumulationType says comes first.
  /// Throws InvalidArgument for a type that is no float or would have to be cast.
  DType accumulatorType(const ir::Variable& weight) const;

  /// Appends the update of all weights of the context.
  void expand(UpdateContext& context) const;
  /// What the backward pass begins with, of the loss's type; no value: 1.
  ir::Value lossGradient(ir::GraphBuilder& b, DType loss, DType scalarType) const;
  /// Whether gradients of the weight are added up in the rule's own velocity rather than in an
  /// accumulator that starts from 0 in each update.
  virtual bool gathersInVelocity(std::string_view variable) const;
  /// The gradient of a micro-batch as it is added to that velocity.
  virtual ir::Value gathered(ir::GraphBuilder& b,
                             std::string_view variable,
                             ir::Value gradient,
                             const Gathering& gathering) const;
  /// Values of the step scalars by variable name ("optimizer.lr", "optimizer.group1.lr"), with
  /// every learning rate times `lrFactor`. A graph declares only those that its rule reads.
  std::map<std::string, double> scalars(double lrFactor = 1.0) const;

  /// Options of PyTorch's rule of the same name under which its state is this one's, 1 for true.
  /// Nothing: PyTorch has no such rule.
  virtual std::optional<Attributes> torchFlags() const { return std::nullopt; }

  /// A copy of `next` that can go on where this one was compiled; what is constant stays so. Throws
  /// InvalidArgument if a constant or the rule differs.
  std::unique_ptr<Optimizer> succeededBy(const Optimizer& next) const;

 protected:
  /// A scalar that follows from attributes, computed in double on the host. It is constant if they
  /// all are.
  struct Derived {
    double value = 0;
    std::vector<std::string_view> from;
  };
  using DerivedScalars = std::map<std::string, Derived, std::less<>>;

  /// `group` are the attributes of group 0, with an "lr"; `own` further ones of the whole rule.
  Optimizer(Attributes group, const CommonOptions& options, const Attributes& own = {});
  Optimizer(const Optimizer&) = default;
  Optimizer& operator=(const Optimizer&) = default;

  /// Constant, and at the value at which its part of the rule is left out.
  bool leftOut(std::string_view attribute, std::size_t group = 0) const;
  /// An attribute or a derived scalar of a group in the wanted type.
  ir::Value scalar(UpdateContext& context,
                   std::string_view name,
                   std::size_t group,
                   DType type) const;
  /// The same as the builder is placed now, for ops outside the update.
  ir::Value scalar(ir::GraphBuilder& b,
                   std::string_view name,
                   std::size_t group,
                   DType scalarType,
                   DType type) const;

 private:
  /// Values, and what was marked.
  struct AttributeSet {
    Attributes values;
    std::map<std::string, bool, std::less<>> constant;
  };
  struct Group {
    ParameterFilter filter;
    AttributeSet attributes;
  };

  /// The rule for weights in their groups, gradients already unscaled and clipped.
  virtual void update(UpdateContext& context) const = 0;
  virtual DerivedScalars derived(const Attributes& attributes) const;
  /// All that cannot change once compiled, but for constants.
  virtual std::string structure() const = 0;
  /// The values at which markDefaultsAsConstant makes attributes constant.
  virtual Attributes defaults() const = 0;

  const Group& group(std::size_t index) const;
  const AttributeSet& setWith(std::string_view attribute, std::size_t group) const;
  Attributes all(std::size_t group) const;
  Optimizer& mark(std::string_view attribute, bool constant);
  void require(std::string_view attribute) const;
  /// The value if the scalar is constant.
  std::optional<double> constantValue(std::string_view name, std::size_t group) const;
  void requireSameConstants(const Optimizer& next) const;

  std::vector<Group> groups_;
  AttributeSet common_;
  std::optional<DType> accumType_;
  AccumulationType accumulationType_;
  bool castGradients_ = false;
};

/// Throws InvalidArgument unless the type is one in which state may be kept: float32 or float16.
void requireStateType(std::string_view option, std::optional<DType> type);

}  // namespace sluice::optim
