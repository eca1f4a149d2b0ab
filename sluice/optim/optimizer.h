// Optimizer: an update rule built from ops, and its hyper-parameters. What a user changes during
// training (learning rate, weight decay, momentum, betas ...) is a step scalar: a variable that the
// host writes before each step, so nothing is recompiled. What changes the rule itself (nesterov,
// momentum or none, bias correction) is fixed when the optimizer is made.
#pragma once

#include <cstddef>
#include <functional>
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

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::string name() const = 0;
  virtual std::unique_ptr<Optimizer> clone() const = 0;

  /// Appends the update of all weights of the context.
  void expand(UpdateContext& context) const;
  /// Values of the step scalars by variable name ("optimizer.lr", "optimizer.group1.lr"), with
  /// every learning rate times `lrFactor`. A graph declares only those that its rule reads.
  std::map<std::string, double> scalars(double lrFactor = 1.0) const;

  /// Group 0 has all weights that no other group takes; of several that match, the last one counts.
  std::size_t numGroups() const { return groups_.size(); }
  std::size_t groupOf(std::string_view variable) const;

  /// A hyper-parameter of a group by name ("lr", "weight_decay", "momentum", "beta1" ...). Throws
  /// InvalidArgument for a name that this rule does not have or a value out of its range.
  double get(std::string_view hyper, std::size_t group = 0) const;
  void set(std::string_view hyper, double value, std::size_t group = 0);
  double lr(std::size_t group = 0) const { return get("lr", group); }
  void setLr(double lr, std::size_t group = 0) { set("lr", lr, group); }

  /// Scales all gradients so that their global norm is at most this. Turning it on is part of the
  /// rule, the value is a step scalar.
  void setMaxGradNorm(double maximum);
  std::optional<double> maxGradNorm() const { return maxGradNorm_; }

 protected:
  using Hypers = std::map<std::string, double, std::less<>>;

  Optimizer() = default;
  Optimizer(const Optimizer&) = default;
  Optimizer& operator=(const Optimizer&) = default;

  /// Returns the number of the group; there must be an "lr". The first one is group 0 and its
  /// filter is ignored.
  std::size_t addGroup(ParameterFilter filter, Hypers hypers);
  /// A step scalar of a group in the wanted type.
  ir::Value hyper(UpdateContext& context,
                  std::string_view name,
                  std::size_t group,
                  DType type) const;

 private:
  struct Group {
    ParameterFilter filter;
    Hypers hypers;
  };

  /// The rule for weights in their groups, gradients already clipped.
  virtual void update(UpdateContext& context) const = 0;
  /// Further step scalars that follow from the hyper-parameters, computed in double on the host.
  virtual Hypers derived(const Hypers& hypers) const;

  const Group& group(std::size_t index) const;

  std::vector<Group> groups_;
  std::optional<double> maxGradNorm_;
};

}  // namespace sluice::optim
