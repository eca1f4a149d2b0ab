// Adam and AdamW. Per weight the moments m ("<weight>.exp_avg") and v ("<weight>.exp_avg_sq"), and
// one step count t ("optimizer.step") for all of them:
//   m <- b1 m + (1 - b1) s,  v <- b2 v + (1 - b2) s²,  x = m̂ / (sqrt(v̂) + eps)
// with m̂ = m / (1 - b1^t), v̂ = v / (1 - b2^t), or m and v themselves without bias correction.
// Adam adds the weight decay to the gradient, s = g + decay w; AdamW to the step, x + decay w.
#pragma once

#include "sluice/optim/optimizer.h"

namespace sluice::optim {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  std::optional<double> weightDecay = {};  ///< not given: 0 for Adam, 0.01 for AdamW
  bool biasCorrection = true;
};

/// What Adam and AdamW share.
class AdamFamily : public Optimizer {
 public:
  /// Weights that match get their own hyper-parameters; returns the group's number. Throws
  /// InvalidArgument for a value out of range.
  std::size_t addGroup(ParameterFilter filter, const AdamOptions& options);

 protected:
  enum class Decay : std::uint8_t { Gradient, Step };
  AdamFamily(Decay decay, const AdamOptions& options);

 private:
  /// Scalars of a group for one type of weights.
  struct Scalars;

  void update(UpdateContext& context) const override;
  Hypers derived(const Hypers& hypers) const override;
  Scalars scalarsOf(UpdateContext& context, ir::Value step, std::size_t group, DType type) const;
  void updateWeight(UpdateContext& context, const Gradient& gradient, const Scalars& scalars) const;

  Decay decay_;
  std::vector<AdamOptions> rules_;  // of each group; only what is fixed is read
};

class Adam : public AdamFamily {
 public:
  explicit Adam(double lr = 1e-3) : Adam(AdamOptions{.lr = lr}) {}
  explicit Adam(const AdamOptions& options) : AdamFamily(Decay::Gradient, options) {}
  std::string name() const override { return "Adam"; }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<Adam>(*this); }
};

class AdamW : public AdamFamily {
 public:
  explicit AdamW(double lr = 1e-3) : AdamW(AdamOptions{.lr = lr}) {}
  explicit AdamW(const AdamOptions& options) : AdamFamily(Decay::Step, options) {}
  std::string name() const override { return "AdamW"; }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<AdamW>(*this); }
};

}  // namespace sluice::optim
