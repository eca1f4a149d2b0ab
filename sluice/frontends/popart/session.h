// TrainingSession and InferenceSession: run a Builder's graph the PopART way. A DataFlow says how
// many batches a step has, which tensors it returns, and how. A StepIO passes arrays by name. Both
// sessions are thin layers over Model.
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

#include "sluice/frontends/popart/builder_model.h"

#pragma GCC visibility push(default)

namespace sluice {

/// Which micro-batches of an anchor are returned: "All", "Final", "Sum", or "EveryN" with a period.
class AnchorReturnType {
 public:
  /// Case does not matter. Throws InvalidArgument for an unknown word, for EveryN without a period
  /// above 0, and for any other word with a period.
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
  /// A step runs over this many batches; in training each has gradientAccumulation micro-batches.
  /// Throws InvalidArgument unless there is at least one.
  explicit DataFlow(std::int64_t batchesPerStep, Anchors anchors = {});
  /// A step returns all of these tensors with the same return type.
  DataFlow(std::int64_t batchesPerStep,
           const std::vector<TensorId>& tensors,
           const AnchorReturnType& type);

  std::int64_t batchesPerStep() const { return batchesPerStep_; }
  const Anchors& anchors() const { return anchors_; }

 private:
  std::int64_t batchesPerStep_;
  Anchors anchors_;
};

/// The arrays of one step. They may have any shape with the right number of elements. If
/// runtimeAsserts is false they may have more elements, and the first ones are used.
struct StepIO {
  const NamedTensors& inputs;
  NamedTensors& outputs;
  bool runtimeAsserts = true;
};

/// What both kinds of session do. A session may outlive its Builder. Several threads may call it,
/// as they may call a Model, except for weights(), whose copies belong to one thread.
class GraphSession {
 public:
  virtual ~GraphSession() = default;
  GraphSession(const GraphSession&) = delete;
  GraphSession& operator=(const GraphSession&) = delete;

  /// Plans memory, compiles the graph and loads the program.
  void prepareDevice();
  /// Copies weights() to the devices. Throws InvalidArgument with constantWeights.
  void weightsFromHost();
  /// Copies the weights of the devices to weights().
  void weightsToHost();
  /// The host's copies of the weights by name. They start with the values in the graph.
  NamedTensors& weights() { return weights_; }

  /// Zeroed arrays for the anchors. Their shapes are [iterations, accumulation, replicas, ...] for
  /// All, [iterations x accumulation / period, replicas, ...] for EveryN, and [replicas, ...] for
  /// Final and Sum. Of these leading extents, those of 1 are left out.
  NamedTensors initAnchorArrays() const;
  /// Runs one step. Throws InvalidArgument before prepareDevice, for a missing input, for an output
  /// that is not an anchor, and for arrays with another type or number of elements. Warns once
  /// about an input that the graph does not have.
  void run(const StepIO& io);

  Model& model() { return model_; }

 protected:
  GraphSession(Builder& builder, const DataFlow& flow, Model model);
  /// The options of the model: those given, with the batches and anchors of the flow.
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
  /// Takes the graph as it is now. Throws InvalidArgument for an unknown loss or anchor, and the
  /// errors in virtual graphs, stages, phases, gradients and the pipeline that they make. Only the
  /// memory is checked later, by prepareDevice.
  TrainingSession(Builder& builder,
                  const DataFlow& flow,
                  const TensorId& loss,
                  const optim::Optimizer& optimizer,
                  const Options& options = Options());
  /// Of an ONNX model: its bytes, or the path of a file. Throws what importing it throws.
  TrainingSession(std::string_view model,
                  const DataFlow& flow,
                  const TensorId& loss,
                  const optim::Optimizer& optimizer,
                  const Options& options = Options());
};

class InferenceSession : public GraphSession {
 public:
  /// With constantWeights the current weights become constants of the program, and whatever depends
  /// only on constants is computed once. Throws what the constructor of TrainingSession throws.
  InferenceSession(Builder& builder,
                   const DataFlow& flow,
                   const Options& options = Options(),
                   bool constantWeights = true);
  /// Of an ONNX model: its bytes, or the path of a file. Throws what importing it throws.
  InferenceSession(std::string_view model,
                   const DataFlow& flow,
                   const Options& options = Options(),
                   bool constantWeights = true);
};

}  // namespace sluice

#pragma GCC visibility pop
