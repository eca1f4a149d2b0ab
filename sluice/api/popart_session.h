// TrainingSession and InferenceSession: a Builder's graph run the PopART way. A DataFlow says how
// many batches a step has and which tensors come back how; a StepIO brings arrays by name. Both are
// thin: everything is done by Model.
//
//   Builder builder(onnx::importModel("model.onnx"));
//   InferenceSession session(builder, DataFlow(4, {{"y", AnchorReturnType("All")}}));
//   session.prepareDevice();
//   NamedTensors anchors = session.initAnchorArrays();
//   session.run({.inputs = {{"x", images}}, .outputs = anchors});
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/api/model.h"

namespace sluice {

/// Which micro-batches of an anchor come back: "All", "Final", "Sum", or "EveryN" with a period.
class AnchorReturnType {
 public:
  /// Upper and lower case are the same. Throws InvalidArgument for an unknown word, for EveryN
  /// without a period above 0 and for another one with a period.
  explicit AnchorReturnType(std::string_view text) : AnchorReturnType(text, 0, false) {}
  AnchorReturnType(std::string_view text, std::int64_t period)
      : AnchorReturnType(text, period, true) {}

  OutputMode mode() const { return mode_; }
  /// 1 unless EveryN.
  std::int64_t period() const { return period_; }

 private:
  AnchorReturnType(std::string_view text, std::int64_t period, bool hasPeriod);

  OutputMode mode_ = OutputMode::All;
  std::int64_t period_ = 1;
};

class DataFlow {
 public:
  using Anchors = std::map<TensorId, AnchorReturnType, std::less<>>;
  /// Batches that a step runs over, each of gradientAccumulation micro-batches when training.
  /// Throws InvalidArgument unless there is at least one.
  explicit DataFlow(std::int64_t batchesPerStep, Anchors anchors = {});
  /// Every tensor with the same type.
  DataFlow(std::int64_t batchesPerStep,
           const std::vector<TensorId>& tensors,
           const AnchorReturnType& type);

  std::int64_t batchesPerStep() const { return batchesPerStep_; }
  const Anchors& anchors() const { return anchors_; }

 private:
  std::int64_t batchesPerStep_;
  Anchors anchors_;
};

/// The arrays of one step. Their shapes are free, their numbers of elements are not, unless runtime
/// asserts are off: then arrays may have more than are needed, and the first ones are used.
struct StepIO {
  const NamedTensors& inputs;
  NamedTensors& outputs;
  bool runtimeAsserts = true;
};

/// What both kinds of session do. They may outlive their Builder. Several threads may call a
/// session as they may a Model, but for weights(), whose copies belong to one thread.
class GraphSession {
 public:
  virtual ~GraphSession() = default;
  GraphSession(const GraphSession&) = delete;
  GraphSession& operator=(const GraphSession&) = delete;

  /// Compiles and loads.
  void prepareDevice();
  /// Uploads weights() to the devices. Throws InvalidArgument with constantWeights.
  void weightsFromHost();
  /// Downloads the weights of the devices to weights().
  void weightsToHost();
  /// The host's copies of the weights, by name; the first ones are those of the graph.
  NamedTensors& weights() { return weights_; }

  /// Zeroed arrays of the anchors: [iterations, accumulation, replicas, ...] for All,
  /// [those / period, replicas, ...] for EveryN, [replicas, ...] for Final and Sum, extents of 1 in
  /// front left out.
  NamedTensors initAnchorArrays() const;
  /// One step. Throws InvalidArgument before prepareDevice, for a missing input, an output that is
  /// no anchor, and for arrays of another type or number of elements. Warns once of an input that
  /// the graph does not have.
  void run(const StepIO& io);

  Model& model() { return model_; }

 protected:
  GraphSession(Builder& builder, const DataFlow& flow, Model model);
  /// The options of the model: those given, with the steps and anchors of the flow.
  static Options optionsFor(const DataFlow& flow, const Options& options);

  bool constantWeights_ = false;

 private:
  using NamedTypes = std::vector<std::pair<std::string, TensorType>>;
  void requirePrepared(std::string_view what) const;
  void requireRoom(const StepIO& io) const;
  std::vector<HostTensor> gather(const StepIO& io);
  TensorType inputType(std::size_t input) const;

  DataFlow flow_;
  Model model_;
  NamedTypes inputs_;
  std::map<TensorId, TensorType, std::less<>> anchored_;  // types of one micro-batch
  NamedTensors weights_;
  bool prepared_ = false;
};

class TrainingSession : public GraphSession {
 public:
  /// Of the graph as it is now. Throws InvalidArgument for an unknown loss or anchor.
  template <class Rule>
  TrainingSession(Builder& builder,
                  const DataFlow& flow,
                  const TensorId& loss,
                  const Rule& optimizer,
                  const Options& options = Options())
      : GraphSession(
            builder, flow, trainingModel(builder, loss, optionsFor(flow, options), optimizer)) {}
};

class InferenceSession : public GraphSession {
 public:
  /// With constantWeights the weights are those of now and part of the program: what depends on
  /// nothing else is computed once.
  InferenceSession(Builder& builder,
                   const DataFlow& flow,
                   const Options& options = Options(),
                   bool constantWeights = true);
};

}  // namespace sluice
