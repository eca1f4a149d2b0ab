// LossScaler: automatic loss scaling. The optimizer's loss scaling is multiplied by a factor, which
// is part of the optimizer's state and starts at 1. The backward pass counts how many elements of
// its float16 gradients, or of some of them, are large. After an update the factor is halved if
// there were too many, else doubled. An update whose gradients are not all finite is skipped:
// weights and state do not change, and the factor is halved.
#pragma once

#include <span>
#include <vector>

#include "sluice/optim/gradient_options.h"
#include "sluice/optim/update_context.h"

namespace sluice::optim {

class LossScaler {
 public:
  /// Throws InvalidArgument for settings out of range.
  LossScaler(const LossScalingOptions& options, DType scalarType);

  /// Reads the factor, at the builder's current placement.
  ir::Value factor(ir::GraphBuilder& b) const;
  /// Declares all state that is kept from one update to the next.
  void declareState(UpdateContext& context) const;
  /// Counts the large elements of these gradients over this many micro-batches per update. There
  /// must be at least one gradient, and all must be float16 values of the backward pass.
  void count(ir::GraphBuilder& b, std::span<const ir::Value> gradients, std::int32_t microBatches);
  /// Sets the factor for the next update. Call it after the rule has been expanded.
  void update(UpdateContext& context, std::int32_t replicas) const;

 private:
  LossScalingOptions options_;
  DType scalarType_;
  std::vector<ir::Value> counts_;
  double elements_ = 0;  // elements counted per update and replica
};

}  // namespace sluice::optim
