// UpdateRule: what minimize() and pipeline() are given: an optimizer, or one wrapped so that
// gradients are accumulated over mini-batches or averaged over replicas. The wrappers have the
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

namespace sluice {

/// In which type gradients are accumulated: a type, or a function of the weight. Not said, or
/// nothing from the function: the weight's own type. Where it differs from that, the optimizer must
/// cast (Optimizer::castGradients).
class AccumulationDtype {
 public:
  AccumulationDtype() = default;
  AccumulationDtype(DType dtype)  // NOLINT(*-explicit-*)
      : type_([dtype](const ir::Variable&) { return dtype; }) {}
  AccumulationDtype(optim::AccumulationType type)  // NOLINT(*-explicit-*)
      : type_(std::move(type)) {}

  /// A copy of the optimizer that accumulates so.
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
  /// The optimizer alone: an update per mini-batch. Keeps a copy.
  UpdateRule(const optim::Optimizer& optimizer)  // NOLINT(*-explicit-*)
      : optimizer_(optimizer.clone()) {}

  const optim::Optimizer& optimizer() const { return *optimizer_; }
  /// Mini-batches per update.
  std::int64_t accumulation() const { return accumulation_; }
  /// Not set: an update per mini-batch.
  const std::optional<AccumulationOptions>& accumulationOptions() const { return options_; }
  /// Whether gradients are averaged over replicas.
  bool crossesReplicas() const { return crossesReplicas_; }
  /// The outermost wrapper's name; empty for an optimizer alone.
  const std::string& wrapper() const { return wrapper_; }

 protected:
  /// Throws InvalidArgument for fewer than one mini-batch and for a rule that accumulates already.
  void accumulate(std::string name, std::int64_t numMiniBatches, AccumulationOptions options);
  /// Throws InvalidArgument the second time.
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

/// Any optimizer, an update every `numMiniBatches` iterations.
class GradientAccumulationOptimizerV2 : public UpdateRule {
 public:
  GradientAccumulationOptimizerV2(UpdateRule rule,
                                  std::int64_t numMiniBatches,
                                  AccumulationOptions options = {})
      : UpdateRule(std::move(rule)) {
    accumulate("GradientAccumulationOptimizerV2", numMiniBatches, std::move(options));
  }
};

/// SGD only, whose state stays on the devices.
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
