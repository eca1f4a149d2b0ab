// Adam, AdamW and LAMB. Each weight has the moments m ("<weight>.exp_avg") and v
// ("<weight>.exp_avg_sq"); all weights share one step count t ("optimizer.step"):
//   m <- b1 m + (1 - b1) s,  v <- b2 v + (1 - b2) s²,  x = m̂ / (sqrt(v̂) + eps)
// with m̂ = m / (1 - b1^t) and v̂ = v / (1 - b2^t), or m and v themselves without bias correction.
// Adam adds the weight decay to the gradient, so s = g + decay w; the others use s = g and add the
// decay to the step: x + decay w. LAMB's learning rate is lr min(|w|, max_weight_norm) / |x|, or lr
// if a norm is 0.
#pragma once

#include "sluice/optim/optimizer.h"

#pragma GCC visibility push(default)

namespace sluice::optim {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  std::optional<double> weightDecay = {};  ///< not set: 0 for Adam, 0.01 for AdamW
  bool biasCorrection = true;
  bool amsgrad = false;  ///< true is refused
  double lossScaling = 1.0;
  double maxGradNorm = kNoGradNorm;
  std::optional<DType> accumType = {};
  std::optional<DType> firstOrderMomentumAccumType = {};
  std::optional<DType> secondOrderMomentumAccumType = {};
};

struct LambOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weightDecay = 0.01;
  bool biasCorrection = true;
  double maxWeightNorm = 65500;  ///< 0: the step of AdamW
  double lossScaling = 1.0;
  std::optional<DType> accumType = {};
  std::optional<DType> firstOrderMomentumAccumType = {};
  std::optional<DType> secondOrderMomentumAccumType = {};
};

/// What the three rules share.
class AdamFamily : public Optimizer {
 public:
  std::optional<Attributes> settings() const override;

 protected:
  enum class Rule : std::uint8_t { Adam, AdamW, Lamb };
  AdamFamily(Rule rule, const AdamOptions& options, const Attributes& own = {});
  /// The torchFlags of Adam and AdamW; nullopt without bias correction, which PyTorch always
  /// applies.
  std::optional<Attributes> torchAdam() const;
  void update(UpdateContext& context) const override;

 private:
  /// The scalars of a group for weights of one type.
  struct Scalars;

  DerivedScalars derived(const Attributes& attributes) const override;
  std::string structure() const override;
  Attributes defaults() const override;
  Scalars scalarsOf(UpdateContext& context, std::size_t group, DType type) const;
  void updateWeight(UpdateContext& context, const Gradient& gradient, const Scalars& scalars) const;

  Rule rule_;
  bool biasCorrection_;
  std::optional<DType> firstType_;
  std::optional<DType> secondType_;
};

class Adam : public AdamFamily {
 public:
  explicit Adam(double lr = 1e-3) : Adam(AdamOptions{.lr = lr}) {}
  explicit Adam(const AdamOptions& options) : AdamFamily(Rule::Adam, options) {}
  std::string name() const override { return "Adam"; }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<Adam>(*this); }
  std::optional<Attributes> torchFlags() const override { return torchAdam(); }
};

class AdamW : public AdamFamily {
 public:
  explicit AdamW(double lr = 1e-3) : AdamW(AdamOptions{.lr = lr}) {}
  explicit AdamW(const AdamOptions& options) : AdamFamily(Rule::AdamW, options) {}
  std::string name() const override { return "AdamW"; }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<AdamW>(*this); }
  std::optional<Attributes> torchFlags() const override { return torchAdam(); }
};

class LAMB : public AdamFamily {
 public:
  explicit LAMB(double lr = 1e-3) : LAMB(LambOptions{.lr = lr}) {}
  explicit LAMB(const LambOptions& options);
  std::string name() const override { return "LAMB"; }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<LAMB>(*this); }
};

}  // namespace sluice::optim

#pragma GCC visibility pop
