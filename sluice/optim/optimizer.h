// Optimizer: an update rule built from ops, and its attributes. Values that a user changes during
// training (learning rate, weight decay, momentum, betas ...) are variable attributes: step scalars
// that the host writes before each step, so that nothing is recompiled. A constant attribute is
// part of the compiled program. Settings that change the rule itself (nesterov, bias correction,
// the types of the state) are fixed when the optimizer is made.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/value.h"
#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice::ir {
class GraphBuilder;
struct Variable;
}  // namespace sluice::ir

namespace sluice::optim {

class UpdateContext;
struct Gathering;
struct Gradient;
struct OptimizerRecord;
struct StateOptions;

/// Says by its name whether a weight belongs to a group.
using ParameterFilter = std::function<bool(std::string_view variable)>;
/// Matches exactly these names.
ParameterFilter named(std::vector<std::string> variables);
/// Matches names with this suffix, such as ".bias".
ParameterFilter endingWith(std::string suffix);

/// The type in which the gradients of a weight are accumulated; nullopt: the weight's own type.
using AccumulationType = std::function<std::optional<DType>(const ir::Variable& weight)>;

/// Attributes by name: "lr", "weight_decay", "momentum", "beta1" ...
using Attributes = std::map<std::string, double, std::less<>>;

constexpr double kNoGradNorm = std::numeric_limits<double>::infinity();

/// Options of every rule, for all of its groups.
struct CommonOptions {
  double lossScaling = 1.0;          ///< 1: none
  double maxGradNorm = kNoGradNorm;  ///< infinity: no clipping
  std::optional<DType> accumType;    ///< see Optimizer::accumulatorType
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::string name() const = 0;
  virtual std::unique_ptr<Optimizer> clone() const = 0;

  /// Adds a group with its own attributes for the weights that match the filter, and returns its
  /// number. Attributes that are not given are those of group 0. Group 0 has all weights that match
  /// no other group; if several groups match, the last one counts. Throws InvalidArgument for an
  /// attribute of the whole optimizer.
  std::size_t addGroup(ParameterFilter filter, const Attributes& attributes);
  std::size_t numGroups() const { return groups_.size(); }
  std::size_t groupOf(std::string_view variable) const;

  /// An attribute of a group by name, or of the whole optimizer: "loss_scaling", "max_grad_norm".
  /// Throws InvalidArgument for a name that this rule does not have or a value out of its range.
  double get(std::string_view attribute, std::size_t group = 0) const;
  void set(std::string_view attribute, double value, std::size_t group = 0);
  /// All attributes of a group; group 0 also has those of the whole optimizer.
  Attributes attributes(std::size_t group = 0) const;
  double lr(std::size_t group = 0) const { return get("lr", group); }
  void setLr(double lr, std::size_t group = 0) { set("lr", lr, group); }

  /// Makes an attribute constant or variable in all groups. A constant is folded into the program;
  /// once that is compiled, Model::setOptimizer refuses another value. By default an attribute is
  /// constant only if its value removes a part of the rule: a momentum of 0, a loss scaling of 1,
  /// an infinite gradient norm. Throws InvalidArgument for an unknown name, with a list of the
  /// known ones, and for a constant "lr".
  Optimizer& markAsConstant(std::string_view attribute) { return mark(attribute, true); }
  Optimizer& markAsVariable(std::string_view attribute) { return mark(attribute, false); }
  bool isConstant(std::string_view attribute, std::size_t group = 0) const;
  /// Follows PopTorch's own optimizers: makes every attribute constant that has its default value,
  /// and betas and alpha always.
  Optimizer& markDefaultsAsConstant();

  /// Scales all gradients so that their global norm is at most this; infinity: no scaling.
  void setMaxGradNorm(double maximum) { set("max_grad_norm", maximum); }
  std::optional<double> maxGradNorm() const;

  /// Sets the type in which the gradients of each weight are accumulated. The rule gets them in
  /// that type. If it is not the weight's type, a model with gradient accumulation is refused
  /// unless castGradients is on.
  void setAccumulationType(AccumulationType type) { accumulationType_ = std::move(type); }
  void castGradients(bool on = true) { castGradients_ = on; }
  /// The type that setAccumulationType gives, else accumType, else float32 (float64 for float64
  /// weights). Throws InvalidArgument for a type that is not a float type, and for one that would
  /// have to be cast.
  DType accumulatorType(const ir::Variable& weight) const;

  /// Appends the ops that update all weights of the context.
  void expand(UpdateContext& context) const;
  /// The gradient of the loss that the backward pass begins with, in the loss's type; an invalid
  /// value stands for 1.
  ir::Value lossGradient(ir::GraphBuilder& b, DType loss, DType scalarType) const;
  /// Whether gradients of the weight are added to the rule's own velocity instead of to an
  /// accumulator that starts at 0 in each update.
  virtual bool gathersInVelocity(std::string_view variable) const;
  /// Adds the gradient of a micro-batch to that velocity. Returns the velocity as the update reads
  /// it.
  virtual ir::Value gathered(ir::GraphBuilder& b,
                             std::string_view variable,
                             ir::Value gradient,
                             const Gathering& gathering) const;
  /// The values of the step scalars by variable name ("optimizer.lr", "optimizer.group1.lr"), with
  /// every learning rate multiplied by `lrFactor`. A graph declares only those that its rule reads.
  std::map<std::string, double> scalars(double lrFactor = 1.0) const;

  /// The options under which PyTorch's rule of the same name has the same state as this one; 1
  /// stands for true. Returns nullopt if PyTorch has no such rule.
  virtual std::optional<Attributes> torchFlags() const { return std::nullopt; }

  /// What the rule is made with, besides attributes and types of accumulators, as numbers (see
  /// record.h). Returns nullopt if the rule, or a part of it, is code of the user.
  virtual std::optional<Attributes> settings() const { return std::nullopt; }
  /// Adds groups, attributes and types to a record.
  void describe(OptimizerRecord& record, std::span<const ir::Variable> weights) const;
  /// Takes them over. Throws InvalidArgument for attributes that the rule does not have.
  void restore(const OptimizerRecord& record);

  /// A copy of `next` that can replace this optimizer in a compiled model. Constant attributes stay
  /// constant. Throws InvalidArgument if a constant or the rule differs.
  std::unique_ptr<Optimizer> succeededBy(const Optimizer& next) const;

 protected:
  /// A scalar that the host computes from attributes, in double. It is constant if they all are.
  struct Derived {
    double value = 0;
    std::vector<std::string_view> from;
  };
  using DerivedScalars = std::map<std::string, Derived, std::less<>>;

  /// `group` has the attributes of group 0, including "lr"; `own` has further attributes of the
  /// whole rule.
  Optimizer(Attributes group, const CommonOptions& options, const Attributes& own = {});
  Optimizer(const Optimizer&) = default;
  Optimizer& operator=(const Optimizer&) = default;

  /// Whether the attribute is constant and its value removes its part of the rule.
  bool leftOut(std::string_view attribute, std::size_t group = 0) const;
  /// An attribute or a derived scalar of a group, in the given type.
  ir::Value scalar(UpdateContext& context,
                   std::string_view name,
                   std::size_t group,
                   DType type) const;
  /// The same at the builder's current placement, for ops outside the update.
  ir::Value scalar(ir::GraphBuilder& b,
                   std::string_view name,
                   std::size_t group,
                   DType scalarType,
                   DType type) const;

 private:
  /// Values, and the attributes that were marked as constant or variable.
  struct AttributeSet {
    Attributes values;
    std::map<std::string, bool, std::less<>> constant;
  };
  struct Group {
    ParameterFilter filter;
    AttributeSet attributes;
  };

  /// Appends the rule for all weights. Loss scaling is already removed from the gradients, and they
  /// are clipped.
  virtual void update(UpdateContext& context) const = 0;
  virtual DerivedScalars derived(const Attributes& attributes) const;
  /// Everything that cannot change once compiled, except constants.
  virtual std::string structure() const = 0;
  /// The default values, at which markDefaultsAsConstant makes attributes constant.
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

/// Throws InvalidArgument for a value that the attribute cannot have.
void requireInRange(std::string_view attribute, double value);
/// Throws InvalidArgument unless state may be kept in this type: float32 or float16.
void requireStateType(std::string_view option, std::optional<DType> type);

}  // namespace sluice::optim

#pragma GCC visibility pop
