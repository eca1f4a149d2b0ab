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

/// Ends the training before a checkpoint of weights that are not finite takes the place of another.
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
  /// No loss has seen the last update.
  void onFitEnd(const Progress& p) override {
    for (const auto& [name, tensor] : model_.stateDict()) {
      if (finite_.contains(name) && !isFinite(tensor)) {
        raise<Error>(
            "'{}' is not finite after {} updates: lower the learning rate", name, p.updates);
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

std::vector<std::shared_ptr<Callback>> trainCallbacks(Model& model, std::optional<double> rate) {
  std::vector<std::shared_ptr<Callback>> callbacks = {std::make_shared<FiniteTraining>(model)};
  if (rate) {
    callbacks.push_back(std::make_shared<GivenRate>(model, *rate));
  }
  return callbacks;
}

}  // namespace sluice::cli
