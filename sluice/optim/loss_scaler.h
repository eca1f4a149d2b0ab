// LossScaler: automatic loss scaling. The optimizer's loss scaling is multiplied by a factor, state
// of the optimizer, that is 1 at first. The backward pass counts how many elements of its float16
// gradients are large; after an update the factor is halved if they were too many, else doubled. An
// update whose gradients are not all finite is left out: weights and state stay as they are, and
// the factor is halved.
#pragma once

#include <vector>

#include "sluice/optim/loss_scaling_options.h"
#include "sluice/optim/update_context.h"

namespace sluice::optim {

class LossScaler {
 public:
  /// Throws InvalidArgument for settings out of range.
  LossScaler(const LossScalingOptions& options, DType scalarType);

  /// Reads the factor where the builder is placed.
  ir::Value factor(ir::GraphBuilder& b) const;
  /// Declares all that is kept from one update to the next.
  void declareState(UpdateContext& context) const;
  /// Counts large elements in the results of all ops of the backward pass from position `first` of
  /// the graph's order on, over this many micro-batches an update. Throws InvalidArgument if none
  /// of them is a float16.
  void count(ir::GraphBuilder& b, std::size_t first, std::int32_t microBatches);
  /// Sets the factor for the next update, once the rule has been expanded.
  void update(UpdateContext& context, std::int32_t replicas) const;

 private:
  LossScalingOptions options_;
  DType scalarType_;
  std::vector<ir::Value> counts_;
  double elements_ = 0;  // counted in an update of one replica
};

}  // namespace sluice::optim
