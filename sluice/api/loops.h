// Loops that run on the devices: a function with its loop becomes one callable, the way of the
// TensorFlow port. One iteration is one micro-batch of a Model that is made of the function, so
// strategies, replicas, precision and profiles are those of its Options.
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
#include "sluice/api/update_rule.h"
#include "sluice/data/infeed_queue.h"
#include "sluice/data/outfeed_queue.h"
#include "sluice/nn/control.h"

namespace sluice {

using Tensors = std::vector<nn::Tensor>;

/// Runs the body `count` times. Each time it gets the values that it returned the time before, at
/// first the inputs, and behind them the tensors of the next element of the infeed. Returns the
/// values of the last time. Once per compiled function. What else the body captures has the same
/// value in all iterations. Throws InvalidArgument for a count below 1 and for values of other
/// types than the inputs.
Tensors repeat(std::int64_t count,
               const nn::Body& body,
               const Tensors& inputs = {},
               data::InfeedQueue* infeed = nullptr);

/// In the body of repeat, once: these tensors go to the queue in every iteration. Throws
/// InvalidArgument elsewhere.
void enqueue(data::OutfeedQueue& outfeed, const nn::Tensor& value);
void enqueue(data::OutfeedQueue& outfeed, const Tensors& values);
/// By name, for OutfeedQueue::dequeueNamed.
void enqueue(data::OutfeedQueue& outfeed, const std::map<std::string, nn::Tensor>& values);

/// In the body of repeat, once: the weights of the module that the loss depends on are trained.
/// The loss is a float scalar. Gradients of several mini-batches are added up, those of several
/// replicas averaged. Throws InvalidArgument elsewhere; compile() refuses a rule without
/// CrossReplicaOptimizer if there are replicas, and one whose mini-batches do not divide the
/// iterations.
void minimize(const UpdateRule& rule, const nn::Tensor& loss);

/// A function that contains a repeat() or a pipeline(), as one callable. It is traced at the first
/// call, for inputs of that call's types. Calls from several threads take turns. What it computes
/// before and behind the loop is computed once per call.
class CompiledFunction {
 public:
  CompiledFunction(nn::Module* module, const Options& options, nn::Body function);
  ~CompiledFunction();
  CompiledFunction(CompiledFunction&& other) noexcept;
  CompiledFunction(const CompiledFunction&) = delete;
  CompiledFunction& operator=(const CompiledFunction&) = delete;
  CompiledFunction& operator=(CompiledFunction&&) = delete;

  /// Runs the whole loop and returns what the function returns: of several replicas, that of the
  /// first. Throws InvalidArgument for inputs of other types than those of the first call, and what
  /// Model::run throws.
  std::vector<HostTensor> run(std::span<const HostTensor> inputs);
  template <class... Inputs>
  std::vector<HostTensor> operator()(const Inputs&... inputs) {
    const std::array<HostTensor, sizeof...(Inputs)> all{inputs...};
    return run(all);
  }

  /// What was made of the function. Throws InvalidArgument before the first call.
  Model& model();

 private:
  class Impl;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

/// The function uses the weights of the module, which must live until the first call: later ones
/// work without it.
CompiledFunction compile(nn::Module& module, const Options& options, nn::Body function);
/// A function without weights.
CompiledFunction compile(const Options& options, nn::Body function);

}  // namespace sluice
