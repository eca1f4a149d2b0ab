// Stochastic gradient descent. Without momentum it keeps no state:
//   w <- w (1 - lr (1 - dampening) decay) - lr (1 - dampening) g
// With momentum, each weight has a velocity v ("<weight>.momentum_buffer"); with d = g + decay w:
//   v <- momentum v + (1 - dampening) d,  w <- w - lr v,  or w - lr (d + momentum v) with Nesterov
// In the combined form one tensor is both accumulator and velocity: every micro-batch adds its
// gradient to v, and right after an update the momentum and decay terms of the next update are put
// into it. Dampening applies from the first step on; PyTorch's own rule skips it in the first step.
#pragma once

#include "sluice/optim/optimizer.h"

#pragma GCC visibility push(default)

namespace sluice::optim {

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

}  // namespace sluice::optim

#pragma GCC visibility pop
