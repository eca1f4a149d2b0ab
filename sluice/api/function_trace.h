// FunctionTrace: a function given to compile() while it is traced. repeat(), enqueue(), minimize()
// and pipeline() report to it what the function wants; compile() makes a Model of that. What the
// function computes before and behind its loop belongs to models of their own, which run once per
// call: each of the three traces the whole function and keeps its part.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/api/options.h"
#include "sluice/api/update_rule.h"
#include "sluice/data/infeed_queue.h"
#include "sluice/data/outfeed_queue.h"
#include "sluice/nn/tensor.h"

namespace sluice {

/// A value that is computed before the loop and read in it or behind it.
struct EarlyValue {
  std::size_t op = 0;  ///< its number among the ops of the function
  std::uint16_t out = 0;
  bool operator==(const EarlyValue&) const = default;
};

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

  std::vector<EarlyValue> early;
  /// By value that the loop carries: the function's input that it starts from; not set: it is
  /// computed.
  std::vector<std::optional<std::size_t>> starts;
  std::vector<std::string> results;  ///< the variables that hold them after a call
  bool before = false;               ///< there is work before the loop
  bool after = false;
  std::size_t opsBefore = 0;
};

enum class FunctionPart : std::uint8_t { Before, Loop, After };

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
  /// Variables that start with these values, as an iteration finds them.
  std::vector<nn::Tensor> carry(const std::vector<nn::Tensor>& starts);
  /// The next iteration finds these values.
  void carryOn(const std::vector<nn::Tensor>& results);
  /// The loop has ended. Returns what is carried, as the last iteration left it.
  std::vector<nn::Tensor> end();

  /// The function has ended: completes the plan. Throws Unsupported for values of the body that are
  /// read behind the loop but not carried, and for buffers written before it.
  void complete(const std::vector<nn::Tensor>& results);
  /// Keeps the ops of the loop, with reads of variables in place of early values. Throws
  /// Unsupported if what is before the loop is not what the plan was made of.
  void keepLoop(const FunctionPlan& complete);
  /// Keeps the ops of another part, which leaves its results in variables. Returns one of its
  /// tensors.
  nn::Tensor keepOnce(FunctionPart part,
                      const FunctionPlan& complete,
                      const std::vector<nn::Tensor>& results);
  /// What the loop's model brings back for a micro-batch: the outfeed's tensors, then the loss if
  /// there is one, or something if there is nothing else.
  std::vector<nn::Tensor> outputs() const;

  const std::vector<nn::Tensor>& inputs() const { return inputs_; }
  static std::string inputName(const std::string& prefix, std::size_t i);
  static std::string carryName(const std::string& prefix, std::size_t i);

  FunctionPlan plan;
  bool inBody = false;
  /// Called before the types of an infeed are asked for, which may wait; may be empty.
  std::function<void(data::InfeedQueue&)> awaitInfeed;

 private:
  FunctionPart partOf(std::size_t position) const;
  bool hasEffects(FunctionPart part) const;
  /// A value, made at this position, that a part reads.
  void note(ir::Value value, std::size_t position, FunctionPart reader);
  /// Variables by name, and what a part leaves in them.
  using Stored = std::vector<std::pair<std::string, ir::Value>>;
  Stored storedBy(FunctionPart part,
                  const std::vector<EarlyValue>& early,
                  const std::vector<nn::Tensor>& results) const;
  /// A variable of the function's own.
  void declare(const std::string& name, const TensorType& type);
  /// The ops that belong to other parts.
  std::vector<ir::OpId> opsOutside(FunctionPart part) const;
  /// Puts reads of variables in place of early values.
  void replaceEarly(const std::vector<EarlyValue>& early);

  std::string prefix_;
  std::vector<nn::Tensor> inputs_;
  std::optional<std::vector<nn::Tensor>> items_;
  std::vector<nn::Tensor> outfeedValues_;
  std::optional<nn::Tensor> loss_;
  std::vector<nn::Tensor> starts_;   // of what is carried
  std::vector<nn::Tensor> carried_;  // as the next iteration finds it
  // Where the function, its loop and the rest begin in the order of the graph.
  std::size_t first_ = 0;
  std::size_t loopFirst_ = 0;
  std::size_t afterFirst_ = 0;
};

}  // namespace sluice
