#include "sluice/base/error.h"
#include "sluice/frontends/tensorflow/loops.h"

namespace sluice {

std::unique_ptr<optim::Optimizer> AccumulationDtype::applyTo(
    const optim::Optimizer& optimizer) const {
  std::unique_ptr<optim::Optimizer> copy = optimizer.clone();
  copy->setAccumulationType(type_ ? type_ : [](const ir::Variable&) { return std::nullopt; });
  return copy;
}

void UpdateRule::accumulate(std::string name,
                            std::int64_t numMiniBatches,
                            AccumulationOptions options) {
  if (numMiniBatches < 1) {
    raise<InvalidArgument>("{}: numMiniBatches must be at least 1, got {}", name, numMiniBatches);
  }
  if (options_) {
    raise<InvalidArgument>("{}: {} accumulates already", name, wrapper_);
  }
  accumulation_ = numMiniBatches;
  options_ = std::move(options);
  wrapper_ = std::move(name);
}

void UpdateRule::crossReplicas(std::string name) {
  if (crossesReplicas_) {
    raise<InvalidArgument>("{}: {} averages over replicas already", name, wrapper_);
  }
  crossesReplicas_ = true;
  wrapper_ = std::move(name);
}

void UpdateRule::requireSgd(const std::string& name) const {
  if (optimizer_->name() != "SGD") {
    raise<InvalidArgument>(
        "{} takes SGD, plain or with momentum, got {}: GradientAccumulationOptimizerV2 takes any "
        "optimizer",
        name,
        optimizer_->name());
  }
}

}  // namespace sluice
