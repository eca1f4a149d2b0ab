// RMSprop. Let s = g + decay w. Each weight has the mean square v1 ("<weight>.square_avg"). The
// centred form also has the mean v2 ("<weight>.grad_avg"), and momentum adds v3
// ("<weight>.momentum_buffer"):
//   v1 <- alpha v1 + (1 - alpha) s²,  v2 <- alpha v2 + (1 - alpha) s,  d = v1, or v1 - v2² centred
//   x = s / (sqrt(d) + eps),  v3 <- momentum v3 + x,  w <- w - lr v3, or w - lr x without momentum
// TensorFlow's variant starts v1 at 1 and includes the learning rate in v3:
//   x = s / sqrt(d + eps),  v3 <- momentum v3 + lr x,  w <- w - v3
#pragma once

#include "sluice/optim/optimizer.h"

#pragma GCC visibility push(default)

namespace sluice::optim {

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
