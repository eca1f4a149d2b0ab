// How gradients are combined and scaled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace sluice::compiler {

// How the gradients of several micro-batches and replicas are combined. The options use these, too.

enum class GradientReduction : std::uint8_t { Mean, Sum };

/// Where the division of a mean happens. Running: after every micro-batch. Post: after the last
/// one. PostAndLoss: after the last one for micro-batches, and at the loss for replicas.
enum class MeanReductionStrategy : std::uint8_t { Running, Post, PostAndLoss };

}  // namespace sluice::compiler

// Settings of automatic loss scaling; see loss_scaler.h.

namespace sluice::optim {

/// Which of the float16 gradients automatic loss scaling watches.
enum class GradientTensorTrackingMethod : std::uint8_t {
  /// The results of all ops of the backward pass that the gradient of the loss reaches, including
  /// the gradients of weights. Views and results that are not read do not count.
  AllNonViewChangingGradientTensors,
  /// Those of the first method that a convolution or a matrix product makes.
  ConvAndMatmulGradients,
  /// The gradients of the tensors that toTrackTensors names.
  GradientsOfUserSpecifiedTensors
};

struct LossScalingOptions {
  /// An element of a gradient counts as large from this fraction of the largest float16, 65504, on.
  double binEdgeLocation = 0.125;
  /// The loss scaling is halved if more than this fraction of all elements is large.
  double thresholdUpperCountProportion = 1e-7;
  /// The loss scaling changes once in this many updates, starting with the first.
  std::int64_t updatePeriod = 1;
  GradientTensorTrackingMethod gradientTensorTrackingMethod =
      GradientTensorTrackingMethod::AllNonViewChangingGradientTensors;
  /// Names of tensors of the forward pass (Model::getTensorNames) or of weights. Only the method
  /// GradientsOfUserSpecifiedTensors reads them.
  std::vector<std::string> toTrackTensors = {};

  bool operator==(const LossScalingOptions&) const = default;
};

/// Throws InvalidArgument for numbers out of range, for names without the method that reads them,
/// and for that method without names.
void requireValid(const LossScalingOptions& options);

}  // namespace sluice::optim

#pragma GCC visibility pop
