// Stochastic gradient descent. Without momentum it keeps no state:
//   w <- w (1 - lr (1 - dampening) decay) - lr (1 - dampening) g
// With momentum, a velocity v per weight ("<weight>.momentum_buffer"), d = g + decay w:
//   v <- momentum v + (1 - dampening) d,  w <- w - lr v,  or w - lr (d + momentum v) with Nesterov
// Combined, one tensor is accumulator and velocity: every micro-batch adds its gradient to v, and
// what the next update needs of the momentum and the decay is put into it right after an update.
// Dampening counts from the first step on; PyTorch's own rule skips it there.
#pragma once

#include "sluice/optim/optimizer.h"

namespace sluice::optim {

struct SgdOptions {
  double lr = 0.01;
  double momentum = 0.0;  ///< 0: the rule without state, unless it is marked as variable
  double dampening = 0.0;
  double weightDecay = 0.0;
  bool nesterov = false;
  bool useCombinedAccum = false;  ///< one tensor for accumulator and velocity
  /// Factor on the velocity of the combined form, for what float16 holds; results do not depend on
  /// it. The separate form ignores it, with a warning.
  double velocityScaling = 1.0;
  /// PyTorch's rule: no dampening in the first step, nor without momentum.
  bool torchCompatible = false;
  double lossScaling = 1.0;
  double maxGradNorm = kNoGradNorm;
  std::optional<DType> accumType = {};          ///< of accumulators and the combined velocity
  std::optional<DType> velocityAccumType = {};  ///< of separate velocities
};

class SGD : public Optimizer {
 public:
  explicit SGD(double lr = 0.01) : SGD(SgdOptions{.lr = lr}) {}
  /// Throws InvalidArgument for Nesterov without momentum, for values out of range and for a
  /// combined form with Nesterov, clipping or PyTorch's rule.
  explicit SGD(const SgdOptions& options);

  std::string name() const override { return "SGD"; }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<SGD>(*this); }

  std::optional<Attributes> torchFlags() const override;
  bool gathersInVelocity(std::string_view variable) const override;
  ir::Value gathered(ir::GraphBuilder& b,
                     std::string_view variable,
                     ir::Value gradient,
                     const Gathering& gathering) const override;

 private:
  void update(UpdateContext& context) const override;
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
