// trainingModel and inferenceModel: a module wrapped for running. The module is traced once per
// input signature, compiled, and run on host tensors that hold a whole step: the first dimension of
// every input is micro-batch x gradientAccumulation x deviceIterations. What forward returns for
// one micro-batch comes back joined as the output mode says.
//
//   auto model = trainingModel(net, options, optim::AdamW(1e-3));
//   auto [prediction, loss] = model(images, labels);
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/api/batch_layout.h"
#include "sluice/api/options.h"
#include "sluice/api/session.h"
#include "sluice/nn/module.h"
#include "sluice/nn/tracer.h"
#include "sluice/optim/lr_schedule.h"
#include "sluice/optim/optimizer.h"
#include "sluice/optim/sgd.h"
#include "sluice/profile/step_recorder.h"

namespace sluice {

using profile::Latency;

/// What every wrapped model does; TrainingModel and InferenceModel add the types of forward.
class Model {
 public:
  using Forward = std::function<std::vector<nn::Tensor>(std::span<const nn::Tensor>)>;

  /// One call: inputs of a whole step, outputs by the output mode. Compiles at the first call and
  /// again for another signature. Throws InvalidArgument for inputs that do not fit. An error in
  /// the middle of a step, such as a label out of range, keeps the updates that were complete by
  /// then.
  std::vector<HostTensor> run(std::span<const HostTensor> inputs);
  /// Compiles for these inputs without running.
  void compile(std::span<const HostTensor> inputs);
  bool isCompiled() const { return !programs_.empty(); }
  /// Seconds spent compiling so far.
  double compilationTime() const { return compilationSeconds_; }

  /// Frozen, as is the object that was given.
  const Options& options() const { return options_; }
  /// How calls are cut into micro-batches; its micro-batch is that of the newest program, 1 before.
  const BatchLayout& batchLayout() const { return layout_; }
  Session& session() { return *session_; }
  nn::Module& module() { return module_; }
  /// Micro-batches per call and replica.
  std::int64_t microBatchesPerStep() const { return layout_.microBatches(); }
  /// The module's table, then what was compiled: bytes, kernels.
  std::string summary() const;
  /// The newest compiled program.
  const program::Program& program() const;

  /// How long a micro-batch of the newest call took: to its devices, through them, back, and in
  /// all (see profile/latency.h). Throws InvalidArgument unless the options enable profiling and
  /// the model was called.
  Latency getHostDeviceLatency() const { return latencies().hostDevice; }
  Latency getComputeLatency() const { return latencies().compute; }
  Latency getDeviceHostLatency() const { return latencies().deviceHost; }
  Latency getLatency() const { return latencies().roundTrip; }

  /// Weight updates made so far.
  std::int64_t updates() const { return updates_; }
  void setLrSchedule(optim::LrSchedule schedule) { schedule_ = std::move(schedule); }
  /// New hyper-parameters take effect at the next call; throws InvalidArgument for another rule.
  void setOptimizer(const optim::Optimizer& optimizer);
  const optim::Optimizer* optimizer() const { return optimizer_.get(); }

 protected:
  /// Freezes the options. A null optimizer: inference.
  Model(nn::Module& module,
        Forward forward,
        const Options& options,
        std::unique_ptr<optim::Optimizer> optimizer);

 private:
  using Signature = std::vector<TensorType>;

  bool training() const { return optimizer_ != nullptr; }
  /// Weights are updated at every micro-batch, and a call is one round.
  bool continuous() const;
  std::int32_t microBatchesPerRound() const;
  program::DrainRule drainRule() const;
  Signature signatureOf(std::span<const HostTensor> inputs) const;
  runtime::LoadedProgram& programFor(const Signature& signature);
  ir::Graph trace(const Signature& signature) const;
  void writeStepScalars();
  std::string programName() const;
  const profile::Latencies& latencies() const;

  nn::Module& module_;
  Forward forward_;
  Options options_;
  BatchLayout layout_;
  std::unique_ptr<optim::Optimizer> optimizer_;  // null: inference
  optim::LrSchedule schedule_;
  std::shared_ptr<Session> session_;  // shared by all models of one module
  std::vector<std::pair<Signature, std::unique_ptr<runtime::LoadedProgram>>> programs_;
  std::int64_t updates_ = 0;
  std::int64_t microBatches_ = 0;
  double compilationSeconds_ = 0;
  std::unique_ptr<profile::StepRecorder> recorder_;  // null: no profile
};

namespace detail {

/// How the result of forward maps to tensors and back to host tensors.
template <class Result>
struct ForwardResult;
template <>
struct ForwardResult<nn::Tensor> {
  using Host = HostTensor;
  static std::vector<nn::Tensor> flatten(const nn::Tensor& t) { return {t}; }
  static Host pack(std::vector<HostTensor> h) { return std::move(h[0]); }
};
template <>
struct ForwardResult<std::vector<nn::Tensor>> {
  using Host = std::vector<HostTensor>;
  static std::vector<nn::Tensor> flatten(std::vector<nn::Tensor> t) { return t; }
  static Host pack(std::vector<HostTensor> h) { return h; }
};
template <>
struct ForwardResult<std::pair<nn::Tensor, nn::Tensor>> {
  using Host = std::pair<HostTensor, HostTensor>;
  static std::vector<nn::Tensor> flatten(const std::pair<nn::Tensor, nn::Tensor>& t) {
    return {t.first, t.second};
  }
  static Host pack(std::vector<HostTensor> h) { return {std::move(h[0]), std::move(h[1])}; }
};
template <class... Ts>
struct ForwardResult<std::tuple<Ts...>> {
  template <class>
  using AsHost = HostTensor;
  using Host = std::tuple<AsHost<Ts>...>;
  static std::vector<nn::Tensor> flatten(const std::tuple<Ts...>& t) {
    return std::apply([](const auto&... each) { return std::vector<nn::Tensor>{each...}; }, t);
  }
  static Host pack(std::vector<HostTensor> h) {
    return pack(std::move(h), std::index_sequence_for<Ts...>());
  }

 private:
  template <std::size_t... kIs>
  static Host pack(std::vector<HostTensor> h, std::index_sequence<kIs...>) {
    return {std::move(h[kIs])...};
  }
};

/// Result and number of arguments of Net::forward.
template <class T>
struct ForwardTraits;
template <class Net, class Result, class... Args>
struct ForwardTraits<Result (Net::*)(Args...)> {
  using Map = ForwardResult<Result>;
  static constexpr std::size_t kArity = sizeof...(Args);
};

template <class Net, class Result, class... Args>
struct ForwardTraits<Result (Net::*)(Args...) const> : ForwardTraits<Result (Net::*)(Args...)> {};

/// Throws InvalidArgument unless forward takes as many inputs as were given.
void requireInputs(std::size_t given, std::size_t taken);

template <class Net, std::size_t... kIs>
Model::Forward bindForward(Net& net, std::index_sequence<kIs...>) {
  using Map = typename ForwardTraits<decltype(&Net::forward)>::Map;
  return [&net](std::span<const nn::Tensor> inputs) {
    requireInputs(inputs.size(), sizeof...(kIs));
    return Map::flatten(net.forward(inputs[kIs]...));
  };
}

template <class Net>
Model::Forward bindForward(Net& net) {
  return bindForward(net,
                     std::make_index_sequence<ForwardTraits<decltype(&Net::forward)>::kArity>());
}

}  // namespace detail

/// A Model that is called with as many tensors as Net::forward takes.
template <class Net>
class TypedModel : public Model {
  using Traits = detail::ForwardTraits<decltype(&Net::forward)>;

 public:
  TypedModel(Net& net, const Options& options, std::unique_ptr<optim::Optimizer> optimizer)
      : Model(net, detail::bindForward(net), options, std::move(optimizer)) {}

  template <class... Inputs>
  requires(sizeof...(Inputs) == Traits::kArity &&
           (std::is_convertible_v<const Inputs&, const HostTensor&> && ...))
      typename Traits::Map::Host
      operator()(const Inputs&... inputs) {
    const std::array<HostTensor, Traits::kArity> all{inputs...};
    return Traits::Map::pack(run(all));
  }
};

/// For training: the last value that forward returns is the loss, a float scalar. Runs
/// deviceIterations updates per call, each over gradientAccumulation micro-batches.
template <class Net, class Rule>
TypedModel<Net> trainingModel(Net& net, const Options& options, const Rule& optimizer) {
  return TypedModel<Net>(net, options, optimizer.clone());
}

/// With plain SGD at a learning rate of 0.01.
template <class Net>
TypedModel<Net> trainingModel(Net& net, const Options& options) {
  return trainingModel(net, options, optim::SGD(0.01));
}

/// For inference and validation; shares the weights with a training model of the same module.
template <class Net>
TypedModel<Net> inferenceModel(Net& net, const Options& options) {
  return TypedModel<Net>(net, options, nullptr);
}

}  // namespace sluice
