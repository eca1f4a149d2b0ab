// Loops that run on the devices: as in the TensorFlow port, a function with its loop becomes one
// callable. compile() makes a Model from the function, and one iteration of the loop is one
// micro-batch of that Model. Its Options therefore set the strategy, replicas, precision and
// profiling.
//
//   data::InfeedQueue infeed(dataset);
//   data::OutfeedQueue losses;
//   auto train = compile(net, Options(), [&](Tensors inputs) {
//     return repeat(100, [&](Tensors in) {
//       const nn::Tensor loss = nn::mseLoss(net.fc(in[0]), in[1]);
//       enqueue(losses, loss);
//       minimize(optim::SGD(0.1), loss);
//       return Tensors{};
//     }, {}, &infeed);
//   });
//   train();
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/api/model.h"
#include "sluice/data/infeed_queue.h"
#include "sluice/data/outfeed_queue.h"
#include "sluice/frontends/tensorflow/update_rule.h"
#include "sluice/nn/control.h"

#pragma GCC visibility push(default)

namespace sluice {

using Tensors = std::vector<nn::Tensor>;

/// Runs the body `count` times. The first iteration gets the inputs, every later one the values
/// that the previous iteration returned; after them come the tensors of the next element of the
/// infeed. Returns the values of the last iteration. A compiled function may call it once. Anything
/// else that the body captures has the same value in all iterations. Throws InvalidArgument for a
/// count below 1 and for returned values whose types differ from those of the inputs.
Tensors repeat(std::int64_t count,
               const nn::Body& body,
               const Tensors& inputs = {},
               data::InfeedQueue* infeed = nullptr);

/// Puts these tensors into the queue in every iteration. The body of repeat may call it once.
/// Throws InvalidArgument outside the body.
void enqueue(data::OutfeedQueue& outfeed, const nn::Tensor& value);
void enqueue(data::OutfeedQueue& outfeed, const Tensors& values);
/// The same with names, for OutfeedQueue::dequeueNamed.
void enqueue(data::OutfeedQueue& outfeed, const std::map<std::string, nn::Tensor>& values);

/// Trains the weights of the module that the loss, a float scalar, depends on. The body of repeat
/// may call it once. Gradients of several mini-batches are summed, those of several replicas are
/// averaged. Throws InvalidArgument outside the body. compile() refuses a rule without
/// CrossReplicaOptimizer if there are replicas, and a rule whose number of mini-batches does not
/// divide the iterations.
void minimize(const UpdateRule& rule, const nn::Tensor& loss);

/// A function that contains a repeat() or a pipeline(), as one callable. It is traced at the first
/// call, for inputs of that call's types. Calls from several threads take turns. What the function
/// computes before and after the loop is computed once per call.
class CompiledFunction {
 public:
  CompiledFunction(nn::Module* module, const Options& options, nn::Body function);
  ~CompiledFunction();
  CompiledFunction(CompiledFunction&& other) noexcept;
  CompiledFunction(const CompiledFunction&) = delete;
  CompiledFunction& operator=(const CompiledFunction&) = delete;
  CompiledFunction& operator=(CompiledFunction&&) = delete;

  /// Runs the whole loop and returns what the function returns; with several replicas, the results
  /// of the first. Throws InvalidArgument if the types of the inputs differ from those of the first
  /// call, and what Model::run throws.
  std::vector<HostTensor> run(std::span<const HostTensor> inputs);
  /// Traces and compiles for inputs of these types, as the first call otherwise does. Throws
  /// InvalidArgument if it was compiled for other types.
  void compile(std::span<const HostTensor> inputs);
  template <class... Inputs>
  std::vector<HostTensor> operator()(const Inputs&... inputs) {
    const std::array<HostTensor, sizeof...(Inputs)> all{inputs...};
    return run(all);
  }

  /// The Model made from the function. Throws InvalidArgument before the first call.
  Model& model();

 private:
  class Impl;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

/// Compiles a function that uses the weights of the module. The module must live until the first
/// call has ended; later calls work without it.
CompiledFunction compile(nn::Module& module, const Options& options, nn::Body function);
/// Compiles a function without weights.
CompiledFunction compile(const Options& options, nn::Body function);

}  // namespace sluice

#pragma GCC visibility pop
