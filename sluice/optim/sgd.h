// Stochastic gradient descent. Without momentum it keeps no state:
//   w <- w (1 - lr (1 - dampening) decay) - lr (1 - dampening) g
// With momentum, a velocity v per weight ("<weight>.momentum_buffer"), d = g + decay w:
//   v <- momentum v + (1 - dampening) d,  w <- w - lr v,  or w - lr (d + momentum v) with Nesterov
// Dampening counts from the first step on (PyTorch's own rule skips it there).
#pragma once

#include "sluice/optim/optimizer.h"

namespace sluice::optim {

struct SgdOptions {
  double lr = 0.01;
  double momentum = 0.0;  ///< 0: the rule without state, for good
  double dampening = 0.0;
  double weightDecay = 0.0;
  bool nesterov = false;
};

class SGD : public Optimizer {
 public:
  explicit SGD(double lr = 0.01) : SGD(SgdOptions{.lr = lr}) {}
  /// Throws InvalidArgument for Nesterov without momentum and for values out of range.
  explicit SGD(const SgdOptions& options);

  /// Weights that match get their own hyper-parameters; returns the group's number.
  std::size_t addGroup(ParameterFilter filter, const SgdOptions& options);

  std::string name() const override { return "SGD"; }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<SGD>(*this); }

 private:
  enum class Rule : std::uint8_t { Plain, Momentum, Nesterov };

  void update(UpdateContext& context) const override;
  Hypers derived(const Hypers& hypers) const override;
  void updatePlain(UpdateContext& context, const Gradient& gradient, std::size_t group) const;
  void updateMomentum(UpdateContext& context, const Gradient& gradient, std::size_t group) const;

  std::vector<Rule> rules_;  // of each group
};

}  // namespace sluice::optim
