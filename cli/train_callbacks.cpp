#include "cli/train_callbacks.h"

#include <cmath>
#include <set>
#include <string>

#include "cli/command_line.h"
#include "sluice/base/error.h"

namespace sluice::cli {
namespace {

bool isFinite(const HostTensor& tensor) {
  for (std::int64_t i = 0; i < tensor.shape().elements(); ++i) {
    if (!std::isfinite(tensor.at(i))) {
      return false;
    }
  }
  return true;
}

/// Ends the training at the first loss, and before it keeps the first weight, that is not finite.
class FiniteTraining : public Callback {
 public:
  explicit FiniteTraining(const Model& model) : model_(model) {
    for (const auto& [name, tensor] : model.stateDict()) {
      if (isFinite(tensor)) {  // a mask has infinities
        finite_.insert(name);
      }
    }
  }

  void onStep(const Progress& p) override {
    requireFiniteLoss(p.metrics.front().second, p.updates);
  }
  void onFitEnd(const Progress& /*progress*/) override { requireFiniteWeights(); }

  /// No loss has seen the last update.
  void requireFiniteWeights() const {
    for (const auto& [name, tensor] : model_.stateDict()) {
      if (finite_.contains(name) && !isFinite(tensor)) {
        raise<Error>(
            "'{}' is not finite after {} updates: lower the learning rate", name, model_.updates());
      }
    }
  }

 private:
  const Model& model_;
  std::set<std::string> finite_;
};

/// A run that goes on has the learning rate of its checkpoint, unless the command line gives one.
class GivenRate : public Callback {
 public:
  GivenRate(Model& model, double rate) : model_(model), rate_(rate) {}

  void onEpochBegin(const Progress&) override {
    std::unique_ptr<optim::Optimizer> optimizer = model_.optimizer()->clone();
    optimizer->setLr(rate_);
    model_.setOptimizer(*optimizer);
  }

 private:
  Model& model_;
  double rate_;
};

}  // namespace

TrainCallbacks trainCallbacks(Model& model, std::optional<double> rate) {
  const auto finite = std::make_shared<FiniteTraining>(model);
  TrainCallbacks result{.callbacks = {finite},
                        .beforeSave = [finite] { finite->requireFiniteWeights(); }};
  if (rate) {
    result.callbacks.push_back(std::make_shared<GivenRate>(model, *rate));
  }
  return result;
}

}  // namespace sluice::cli
