// The optimizers and schedules of learning rates.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/optim/optimizer.h"

#pragma GCC visibility push(default)

namespace sluice::optim {

// LrSchedule: the factor on the learning rates as a function of the number of updates made so far.
// It is a value type: LrSchedule::cosine(1000).warmUp(100). The factor is passed to
// Optimizer::scalars, so that groups keep the ratio of their learning rates.

class LrSchedule {
 public:
  LrSchedule() = default;  ///< constant 1

  static LrSchedule constant() { return {}; }
  /// Multiplies by gamma after every `size` updates.
  static LrSchedule step(std::int64_t size, double gamma = 0.1);
  /// Multiplies by gamma at each of these updates, which must be in ascending order.
  static LrSchedule multiStep(std::vector<std::int64_t> milestones, double gamma = 0.1);
  /// Multiplies by gamma after every update.
  static LrSchedule exponential(double gamma);
  /// Follows half a cosine from 1 down to `minimum` (a fraction) in `total` updates, and stays
  /// there.
  static LrSchedule cosine(std::int64_t total, double minimum = 0.0);

  /// The same schedule after a warm-up: over `steps` updates, the factor rises linearly from
  /// `start` to the first value of this schedule.
  LrSchedule warmUp(std::int64_t steps, double start = 0.0) const;

  /// The factor for the next update when `updates` were made already. Throws InvalidArgument for a
  /// negative number.
  double at(std::int64_t updates) const;

 private:
  enum class Kind : std::uint8_t { Constant, Step, MultiStep, Cosine };

  double afterWarmUp(std::int64_t updates) const;

  Kind kind_ = Kind::Constant;
  std::int64_t period_ = 1;  // Step: size; Cosine: total
  double value_ = 1.0;       // Step, MultiStep: gamma; Cosine: minimum
  std::vector<std::int64_t> milestones_;
  std::int64_t warmUpSteps_ = 0;
  double warmUpStart_ = 0.0;
};

// Stochastic gradient descent. Without momentum it keeps no state:
//   w <- w (1 - lr (1 - dampening) decay) - lr (1 - dampening) g
// With momentum, each weight has a velocity v ("<weight>.momentum_buffer"); with d = g + decay w:
//   v <- momentum v + (1 - dampening) d,  w <- w - lr v,  or w - lr (d + momentum v) with Nesterov
// In the combined form one tensor is both accumulator and velocity: every micro-batch adds its
// gradient to v, and right after an update the momentum and decay terms of the next update are put
// into it. Dampening applies from the first step on; PyTorch's own rule skips it in the first step.

struct SgdOptions {
  double lr = 0.01;
  double momentum = 0.0;  ///< 0: no state, unless it is marked as variable
  double dampening = 0.0;
  double weightDecay = 0.0;
  bool nesterov = false;
  bool useCombinedAccum = false;  ///< one tensor for accumulator and velocity
  /// A factor on the velocity of the combined form that keeps it within the range of float16.
  /// Results do not depend on it. The separate form ignores it, with a warning.
  double velocityScaling = 1.0;
  /// Uses PyTorch's rule: no dampening in the first step, and none without momentum.
  bool torchCompatible = false;
  double lossScaling = 1.0;
  double maxGradNorm = kNoGradNorm;
  std::optional<DType> accumType = {};          ///< type of accumulators and the combined velocity
  std::optional<DType> velocityAccumType = {};  ///< type of separate velocities
};

class SGD : public Optimizer {
 public:
  explicit SGD(double lr = 0.01) : SGD(SgdOptions{.lr = lr}) {}
  /// Throws InvalidArgument for Nesterov without momentum, for values out of range, and for the
  /// combined form with Nesterov, clipping or PyTorch's rule.
  explicit SGD(const SgdOptions& options);

  std::string name() const override { return "SGD"; }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<SGD>(*this); }

  std::optional<Attributes> torchFlags() const override;
  std::optional<Attributes> settings() const override;
  bool gathersInVelocity(std::string_view variable) const override;
  ir::Value gathered(ir::GraphBuilder& b,
                     std::string_view variable,
                     ir::Value gradient,
                     const Gathering& gathering) const override;

 protected:
  void update(UpdateContext& context) const override;

 private:
  DerivedScalars derived(const Attributes& attributes) const override;
  std::string structure() const override;
  Attributes defaults() const override;
  bool plain(std::size_t group) const { return leftOut("momentum", group); }
  void updatePlain(UpdateContext& context, const Gradient& gradient, std::size_t group) const;
  void updateSeparate(UpdateContext& context, const Gradient& gradient, std::size_t group) const;
  void updateCombined(UpdateContext& context, const Gradient& gradient, std::size_t group) const;
  StateOptions combinedState(const ir::Variable& weight) const;

  bool nesterov_;
  bool combined_;
  bool torchCompatible_;
  std::optional<DType> velocityType_;
};

// Adam, AdamW and LAMB. Each weight has the moments m ("<weight>.exp_avg") and v
// ("<weight>.exp_avg_sq"); all weights share one step count t ("optimizer.step"):
//   m <- b1 m + (1 - b1) s,  v <- b2 v + (1 - b2) s²,  x = m̂ / (sqrt(v̂) + eps)
// with m̂ = m / (1 - b1^t) and v̂ = v / (1 - b2^t), or m and v themselves without bias correction.
// Adam adds the weight decay to the gradient, so s = g + decay w; the others use s = g and add the
// decay to the step: x + decay w. LAMB's learning rate is lr min(|w|, max_weight_norm) / |x|, or lr
// if a norm is 0.

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

// RMSprop. Let s = g + decay w. Each weight has the mean square v1 ("<weight>.square_avg"). The
// centred form also has the mean v2 ("<weight>.grad_avg"), and momentum adds v3
// ("<weight>.momentum_buffer"):
//   v1 <- alpha v1 + (1 - alpha) s²,  v2 <- alpha v2 + (1 - alpha) s,  d = v1, or v1 - v2² centred
//   x = s / (sqrt(d) + eps),  v3 <- momentum v3 + x,  w <- w - lr v3, or w - lr x without momentum
// TensorFlow's variant starts v1 at 1 and includes the learning rate in v3:
//   x = s / sqrt(d + eps),  v3 <- momentum v3 + lr x,  w <- w - v3

struct RmsPropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weightDecay = 0.0;
  double momentum = 0.0;  ///< 0: no v3, unless it is marked as variable
  bool centered = false;
  bool useTfVariant = false;
  double lossScaling = 1.0;
  std::optional<DType> accumType = {};
  std::optional<DType> firstOrderMomentumAccumType = {};   ///< type of v2 and v3
  std::optional<DType> secondOrderMomentumAccumType = {};  ///< type of v1
};

class RMSprop : public Optimizer {
 public:
  explicit RMSprop(double lr = 1e-2) : RMSprop(RmsPropOptions{.lr = lr}) {}
  explicit RMSprop(const RmsPropOptions& options);
  std::string name() const override { return "RMSprop"; }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<RMSprop>(*this); }
  std::optional<Attributes> torchFlags() const override;
  std::optional<Attributes> settings() const override;

 protected:
  void update(UpdateContext& context) const override;

 private:
  DerivedScalars derived(const Attributes& attributes) const override;
  std::string structure() const override;
  Attributes defaults() const override;
  void updateWeight(UpdateContext& context, const Gradient& gradient, std::size_t group) const;

  bool centered_;
  bool tfVariant_;
  std::optional<DType> firstType_;
  std::optional<DType> secondType_;
};

}  // namespace sluice::optim

#pragma GCC visibility pop
