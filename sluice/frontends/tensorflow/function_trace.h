// FunctionTrace: a function given to compile(), while it is traced. repeat(), enqueue(), minimize()
// and pipeline() report to it what the function asks for, and compile() makes a Model from that.
// What the function computes before its loop and after it belongs to two more models, which run
// once per call. Each of the three models traces the whole function and keeps its own part.
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
#include "sluice/data/queues.h"
#include "sluice/frontends/tensorflow/loops.h"
#include "sluice/nn/tensor.h"

namespace sluice {

/// A value that is computed before the loop and read in the loop or after it.
struct EarlyValue {
  std::size_t op = 0;  ///< its number among the ops of the function
  std::uint16_t out = 0;
  bool operator==(const EarlyValue&) const = default;
};

/// What tracing found out about a function.
struct FunctionPlan {
  std::string_view kind;          ///< "repeat" or "pipeline"; empty: neither was called
  std::int64_t microBatches = 1;  ///< per call and replica
  std::int64_t perUpdate = 1;     ///< micro-batches per weight update
  data::InfeedQueue* infeed = nullptr;
  data::OutfeedQueue* outfeed = nullptr;
  data::Types outfeedTypes;
  std::vector<std::string> outfeedNames;
  std::int64_t outfeedSum = 1;  ///< micro-batches that are summed into one element of the outfeed
  std::optional<UpdateRule> update;                 ///< not set: nothing is trained
  std::optional<AccumulationOptions> accumulation;  ///< not set: an update per mini-batch
  std::function<void(Options&)> configure;  ///< makes further changes to the options; may be empty

  std::vector<EarlyValue> early;
  /// For each value that the loop carries, the function's input that it starts from; not set: the
  /// start is computed.
  std::vector<std::optional<std::size_t>> starts;
  std::vector<std::string> results;  ///< variables that hold the results after a call
  bool before = false;               ///< whether there is work before the loop
  bool after = false;
  std::size_t opsBefore = 0;
};

enum class FunctionPart : std::uint8_t { Before, Loop, After };

class FunctionTrace {
 public:
  /// The function's inputs are variables called prefix/input0 and so on. `items` are the infeed's
  /// tensors for one micro-batch; if they are not given, take() makes them. A thread has at most
  /// one FunctionTrace at a time.
  FunctionTrace(const std::string& prefix,
                std::span<const TensorType> inputs,
                std::optional<std::vector<nn::Tensor>> items);
  ~FunctionTrace();
  FunctionTrace(const FunctionTrace&) = delete;
  FunctionTrace& operator=(const FunctionTrace&) = delete;

  /// Throws InvalidArgument, naming `caller`, unless a function is being traced.
  static FunctionTrace& current(std::string_view caller);

  /// Called when repeat or pipeline begins. Throws InvalidArgument for a second one.
  void begin(std::string_view kind);
  /// Throws InvalidArgument, naming `caller`, outside the body of repeat.
  void requireBody(std::string_view caller) const;
  /// The tensors of one element of the infeed.
  std::vector<nn::Tensor> take(data::InfeedQueue* infeed);
  /// Throws InvalidArgument for a second outfeed.
  void enqueue(data::OutfeedQueue& outfeed,
               std::vector<nn::Tensor> values,
               std::vector<std::string> names);
  /// Throws InvalidArgument for a second loss.
  void minimize(const UpdateRule& rule, const nn::Tensor& loss);
  /// Makes variables that start with these values, and returns their values at the start of an
  /// iteration.
  std::vector<nn::Tensor> carry(const std::vector<nn::Tensor>& starts);
  /// Makes these values the ones that the next iteration starts with.
  void carryOn(const std::vector<nn::Tensor>& results);
  /// Called when the loop has ended. Returns the carried values as the last iteration left them.
  std::vector<nn::Tensor> end();

  /// Called when the function has ended; completes the plan. Throws Unsupported for values of the
  /// body that are read after the loop but not carried, and for buffers that are written before it.
  void complete(const std::vector<nn::Tensor>& results);
  /// Keeps only the ops of the loop and replaces early values by reads of variables. Throws
  /// Unsupported if the ops before the loop differ from those that the plan was made from.
  void keepLoop(const FunctionPlan& complete);
  /// Keeps only the ops of another part, which stores its results in variables. Returns one of the
  /// part's tensors.
  nn::Tensor keepOnce(FunctionPart part,
                      const FunctionPlan& complete,
                      const std::vector<nn::Tensor>& results);
  /// What the loop's model returns for a micro-batch: the outfeed's tensors, then the loss. If
  /// there are neither, the carried values. Throws InvalidArgument if there are none of these.
  std::vector<nn::Tensor> outputs() const;

  const std::vector<nn::Tensor>& inputs() const { return inputs_; }
  static std::string inputName(const std::string& prefix, std::size_t i);
  static std::string carryName(const std::string& prefix, std::size_t i);

  FunctionPlan plan;
  bool inBody = false;
  /// Called before the types of an infeed are asked for, because asking may block; may be empty.
  std::function<void(data::InfeedQueue&)> awaitInfeed;

 private:
  FunctionPart partOf(std::size_t position) const;
  bool hasEffects(FunctionPart part) const;
  /// Notes that `reader` reads a value that was made at this position.
  void note(ir::Value value, std::size_t position, FunctionPart reader);
  /// Names of variables, and the values that a part stores in them.
  using Stored = std::vector<std::pair<std::string, ir::Value>>;
  Stored storedBy(FunctionPart part,
                  const std::vector<EarlyValue>& early,
                  const std::vector<nn::Tensor>& results) const;
  /// Declares a variable that belongs to the function.
  void declare(const std::string& name, const TensorType& type);
  /// The ops that belong to other parts.
  std::vector<ir::OpId> opsOutside(FunctionPart part) const;
  /// Replaces early values by reads of variables.
  void replaceEarly(const std::vector<EarlyValue>& early);

  std::string prefix_;
  std::vector<nn::Tensor> inputs_;
  std::optional<std::vector<nn::Tensor>> items_;
  std::vector<nn::Tensor> outfeedValues_;
  std::optional<nn::Tensor> loss_;
  std::vector<nn::Tensor> starts_;   // start values of what is carried
  std::vector<nn::Tensor> carried_;  // the values that the next iteration starts with
  // Positions in the order of the graph at which the function, its loop and the rest begin.
  std::size_t first_ = 0;
  std::size_t loopFirst_ = 0;
  std::size_t afterFirst_ = 0;
};

}  // namespace sluice
