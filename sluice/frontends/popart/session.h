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
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/api/model.h"
#include "sluice/api/options.h"
#include "sluice/frontends/popart/builder_op_options.h"

#pragma GCC visibility push(default)

namespace sluice {

// Models of a Builder's graph.

class Builder;

/// Of a Builder's graph as it is now. Inputs and outputs are those that were added to it, in order;
/// the loss need not be an output. Models of one Builder share its weights. Throws InvalidArgument
/// for an unknown loss.
Model trainingModel(Builder& builder,
                    const TensorId& loss,
                    const Options& options,
                    const optim::Optimizer& optimizer);
/// Throws InvalidArgument for a graph without outputs.
Model inferenceModel(Builder& builder, const Options& options);

/// The graph as it is now, as the source of a model: what is built later does not count. The
/// builder may end before the source. Throws InvalidArgument for an unknown loss or no output. With
/// constantWeights the graph has constants in place of its weights: the values at the time of
/// tracing.
std::unique_ptr<GraphSource> builderSource(Builder& builder,
                                           std::optional<TensorId> loss,
                                           bool constantWeights = false);

}  // namespace sluice

// DeviceManager: devices acquired the PopART way.

namespace sluice::devices {
struct HeldDevices;
}

namespace sluice {

/// Several devices of a kind on which one model runs, and the pattern of barriers at which they
/// meet. The devices are held until two things have happened: the last copy of this object is
/// destroyed or released, and the last model that was made for the devices is destroyed.
class MultiDevice {
 public:
  /// An empty kind: none was said, and the devices are of kind "cpu".
  MultiDevice(std::string kind,
              std::int64_t count,
              SyncPattern pattern,
              std::shared_ptr<const devices::HeldDevices> hold);

  const std::string& kind() const { return kind_; }
  std::int64_t count() const { return count_; }
  SyncPattern pattern() const { return pattern_; }
  /// The numbers of these devices in the machine. Empty for a kind with an unlimited number of
  /// devices; a model then gets any of them.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  /// Ends the hold of this object. Others may acquire the devices once all options that they were
  /// applied to, and all models made with these options, are destroyed.
  void release() { hold_.reset(); }
  /// Makes a model run on these devices; each of its replicas gets an equal share of them. The
  /// options, and models made with them, also hold the devices. Throws InvalidArgument if the
  /// devices cannot be shared equally, and after release().
  Options& applyTo(Options& options) const;

 private:
  bool kindIsSaid_;
  std::string kind_;
  std::int64_t count_;
  SyncPattern pattern_;
  std::vector<std::int32_t> ids_;
  std::shared_ptr<const devices::HeldDevices> hold_;
};

/// Devices the PopART way:
///
///   DeviceManager().acquireAvailableDevice(4).applyTo(options);
class DeviceManager {
 public:
  /// Acquires devices; while they are held, no other call acquires them. Throws InvalidArgument for
  /// a count below 1, and DeviceError if fewer devices than that exist or are free. Without a kind
  /// they are CPU devices, unless the options that they are applied to name another kind. A kind
  /// may have a target, "sim@ipu2".
  MultiDevice acquireAvailableDevice(std::int64_t count = 1,
                                     SyncPattern pattern = SyncPattern::Full,
                                     std::string_view kind = "") const;
  /// Simulated IPUs: the CPU's results in the virtual time and memory of a target, "ipu1", "ipu2",
  /// "ipu21" or a file (docs/simulation.md). Throws InvalidArgument for a count below 1 and for an
  /// unknown target.
  MultiDevice createIpuModelDevice(std::int64_t count = 1, std::string_view target = "ipu2") const;
};

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
