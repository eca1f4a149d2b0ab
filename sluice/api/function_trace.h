// FunctionTrace: a function given to compile() while it is traced. repeat(), enqueue(), minimize()
// and pipeline() report to it what the function wants; compile() makes a Model of that.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/api/options.h"
#include "sluice/api/update_rule.h"
#include "sluice/data/infeed_queue.h"
#include "sluice/data/outfeed_queue.h"
#include "sluice/nn/tensor.h"

namespace sluice {

/// What a function was found to do.
struct FunctionPlan {
  std::string_view kind;          ///< "repeat" or "pipeline"; empty: neither was called
  std::int64_t microBatches = 1;  ///< of a call, per replica
  std::int64_t perUpdate = 1;     ///< of them
  data::InfeedQueue* infeed = nullptr;
  data::OutfeedQueue* outfeed = nullptr;
  data::Types outfeedTypes;
  std::vector<std::string> outfeedNames;
  std::int64_t outfeedSum = 1;       ///< micro-batches that the outfeed gets the sum of
  std::optional<UpdateRule> update;  ///< not set: nothing is trained
  std::optional<AccumulationOptions> accumulation;  ///< not set: an update per mini-batch
  std::function<void(Options&)> configure;  ///< what else the options must say; may be empty
};

class FunctionTrace {
 public:
  /// The function's inputs are variables called prefix/input0 and so on. `items` are the infeed's
  /// tensors of a micro-batch; not given: take() makes them. One per thread at a time.
  FunctionTrace(const std::string& prefix,
                std::span<const TensorType> inputs,
                std::optional<std::vector<nn::Tensor>> items);
  ~FunctionTrace();
  FunctionTrace(const FunctionTrace&) = delete;
  FunctionTrace& operator=(const FunctionTrace&) = delete;

  /// Throws InvalidArgument, naming `caller`, unless a function is being traced.
  static FunctionTrace& current(std::string_view caller);

  /// repeat or pipeline begins. Throws InvalidArgument for a second one.
  void begin(std::string_view kind);
  /// Throws InvalidArgument, naming `caller`, outside the body of repeat.
  void requireBody(std::string_view caller) const;
  /// The tensors of an element of the infeed.
  std::vector<nn::Tensor> take(data::InfeedQueue* infeed);
  /// Throws InvalidArgument for a second outfeed.
  void enqueue(data::OutfeedQueue& outfeed,
               std::vector<nn::Tensor> values,
               std::vector<std::string> names);
  /// Throws InvalidArgument for a second loss.
  void minimize(const UpdateRule& rule, const nn::Tensor& loss);
  /// The variable of an input of the function gets this value in every iteration. Throws
  /// Unsupported if it is none.
  void carry(const std::vector<nn::Tensor>& inputs, const std::vector<nn::Tensor>& results);

  /// The function has ended: which input's variable holds each of its results. Throws Unsupported
  /// for a result that is computed outside of the loop.
  std::vector<std::size_t> resultInputs(const std::vector<nn::Tensor>& results) const;
  /// What the model brings back for a micro-batch: the outfeed's tensors, then the loss if there is
  /// one, or something if there is nothing else.
  std::vector<nn::Tensor> outputs() const;

  const std::vector<nn::Tensor>& inputs() const { return inputs_; }
  static std::string inputName(const std::string& prefix, std::size_t i);

  FunctionPlan plan;
  bool inBody = false;

 private:
  /// Its position among the inputs, or inputs().size().
  std::size_t inputOf(const nn::Tensor& tensor) const;

  std::string prefix_;
  std::vector<nn::Tensor> inputs_;
  std::vector<nn::Tensor> final_;  // by input: its value after the loop
  std::optional<std::vector<nn::Tensor>> items_;
  std::vector<nn::Tensor> outfeedValues_;
  std::optional<nn::Tensor> loss_;
};

}  // namespace sluice
