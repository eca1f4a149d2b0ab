// UpdateRule: the argument of minimize() and pipeline(). It is an optimizer, possibly wrapped so
// that gradients are accumulated over mini-batches or averaged over replicas. The wrappers have the
// names of the TensorFlow port.
//
//   minimize(CrossReplicaOptimizer(GradientAccumulationOptimizerV2(optim::Adam(1e-3), 8)), loss);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "sluice/api/options.h"
#include "sluice/optim/optimizer.h"

#pragma GCC visibility push(default)

namespace sluice {

/// The type in which gradients are accumulated: either a type or a function of the weight. If
/// neither is given, or the function returns nothing, it is the weight's own type. If it is another
/// type, the optimizer must cast (Optimizer::castGradients).
class AccumulationDtype {
 public:
  AccumulationDtype() = default;
  AccumulationDtype(DType dtype)  // NOLINT(*-explicit-*)
      : type_([dtype](const ir::Variable&) { return dtype; }) {}
  AccumulationDtype(optim::AccumulationType type)  // NOLINT(*-explicit-*)
      : type_(std::move(type)) {}

  /// A copy of the optimizer that accumulates in this type.
  std::unique_ptr<optim::Optimizer> applyTo(const optim::Optimizer& optimizer) const;

 private:
  optim::AccumulationType type_;
};

struct AccumulationOptions {
  /// The optimizer's state is in remote memory between updates. Not set: yes, unless the options
  /// say where it is.
  std::optional<bool> offloadWeightUpdateVariables = {};
  AccumulationDtype dtype = {};
  Reduction reduction = Reduction::Sum;  ///< over the mini-batches of an update
};

class UpdateRule {
 public:
  /// A plain optimizer: there is one update per mini-batch. Keeps a copy.
  UpdateRule(const optim::Optimizer& optimizer)  // NOLINT(*-explicit-*)
      : optimizer_(optimizer.clone()) {}

  const optim::Optimizer& optimizer() const { return *optimizer_; }
  /// Mini-batches per update.
  std::int64_t accumulation() const { return accumulation_; }
  /// Not set: there is one update per mini-batch.
  const std::optional<AccumulationOptions>& accumulationOptions() const { return options_; }
  /// Whether gradients are averaged over replicas.
  bool crossesReplicas() const { return crossesReplicas_; }
  /// The name of the outermost wrapper; empty for a plain optimizer.
  const std::string& wrapper() const { return wrapper_; }

 protected:
  /// Throws InvalidArgument for fewer than one mini-batch and for a rule that already accumulates.
  void accumulate(std::string name, std::int64_t numMiniBatches, AccumulationOptions options);
  /// Throws InvalidArgument if it is called a second time.
  void crossReplicas(std::string name);
  /// Throws InvalidArgument for anything but SGD, plain or with momentum.
  void requireSgd(const std::string& name) const;

 private:
  std::shared_ptr<const optim::Optimizer> optimizer_;
  std::int64_t accumulation_ = 1;
  std::optional<AccumulationOptions> options_;
  bool crossesReplicas_ = false;
  std::string wrapper_;
};

/// Wraps any optimizer; there is one update every `numMiniBatches` iterations.
class GradientAccumulationOptimizerV2 : public UpdateRule {
 public:
  GradientAccumulationOptimizerV2(UpdateRule rule,
                                  std::int64_t numMiniBatches,
                                  AccumulationOptions options = {})
      : UpdateRule(std::move(rule)) {
    accumulate("GradientAccumulationOptimizerV2", numMiniBatches, std::move(options));
  }
};

/// Wraps SGD only, and keeps its state on the devices.
class GradientAccumulationOptimizer : public UpdateRule {
 public:
  GradientAccumulationOptimizer(UpdateRule rule, std::int64_t numMiniBatches)
      : UpdateRule(std::move(rule)) {
    requireSgd("GradientAccumulationOptimizer");
    accumulate(
        "GradientAccumulationOptimizer", numMiniBatches, {.offloadWeightUpdateVariables = false});
  }
};

/// Averages the gradients of replicas, once per update.
class CrossReplicaOptimizer : public UpdateRule {
 public:
  explicit CrossReplicaOptimizer(UpdateRule rule) : UpdateRule(std::move(rule)) {
    crossReplicas("CrossReplicaOptimizer");
  }
};

class CrossReplicaGradientAccumulationOptimizerV2 : public GradientAccumulationOptimizerV2 {
 public:
  CrossReplicaGradientAccumulationOptimizerV2(UpdateRule rule,
                                              std::int64_t numMiniBatches,
                                              AccumulationOptions options = {})
      : GradientAccumulationOptimizerV2(std::move(rule), numMiniBatches, std::move(options)) {
    crossReplicas("CrossReplicaGradientAccumulationOptimizerV2");
  }
};

class CrossReplicaGradientAccumulationOptimizer : public GradientAccumulationOptimizer {
 public:
  CrossReplicaGradientAccumulationOptimizer(UpdateRule rule, std::int64_t numMiniBatches)
      : GradientAccumulationOptimizer(std::move(rule), numMiniBatches) {
    crossReplicas("CrossReplicaGradientAccumulationOptimizer");
  }
};

}  // namespace sluice

#pragma GCC visibility pop
