// Tracer: one trace in progress. Constructing it makes it the thread's current trace; modules and
// functions then append to its graph. It knows whether a training or an inference model is built.
// It also knows which parameters were read already, so that a weight is read only once however
// often it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/nn/block.h"
#include "sluice/nn/precision.h"
#include "sluice/nn/tensor.h"

namespace sluice::nn {

class Module;
class Parameter;

enum class TraceMode : std::uint8_t { Inference, Training };

/// What a trace knows about its blocks. block.cpp uses it.
struct BlockState {
  struct Applied {
    const Module* module;
    std::string id;
  };

  BlockPlace begun;                        ///< the block of the last layer that began one
  int depth = 0;                           ///< Block scopes that are open
  std::optional<std::int64_t> nextAutoId;  ///< not set: blocks need an id
  std::vector<std::int32_t> devices;       ///< by block; -1: none
  std::vector<Applied> applied;            ///< layers that began a block, and its id
};

/// The share of a device's memory that the op which makes a value should use at most.
struct MemoryHint {
  ir::Value value;
  double proportion;
};

class Tracer {
 public:
  /// Traces into `graph`. Throws InvalidArgument if this thread is already tracing.
  Tracer(ir::Graph& graph, TraceMode mode);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// The thread's trace. Throws InvalidArgument if there is none.
  static Tracer& current();
  static bool active();

  ir::GraphBuilder& builder() { return builder_; }
  ir::Graph& graph() { return builder_.graph(); }
  bool training() const { return mode_ == TraceMode::Training; }
  /// Sets whether the names of ops begin with the path of the module that makes them; on by
  /// default.
  void nameModules(bool on) { namesModules_ = on; }
  BlockState& blocks() { return blocks_; }
  /// What setAvailableMemory and MultiConv asked for.
  std::vector<MemoryHint>& memoryHints() { return memoryHints_; }
  /// The convolutions of the open MultiConv; nullopt if none is open.
  std::optional<std::vector<ir::OpId>>& openMultiConv() { return openMultiConv_; }
  /// How functions cast their operands to one type.
  void setPrecision(PrecisionSettings settings) { precision_ = std::move(settings); }
  const PrecisionSettings& precision() const { return precision_; }
  /// Uses the root's autocast setting where no inner scope, function or module has its own.
  void beginModel(const Module& root);
  /// Switches autocast (autocast.h) on or off and returns whether it was on.
  bool autocast(bool on) { return std::exchange(autocast_, on); }
  bool autocasts() const { return autocast_ && precision_.autocastEnabled; }
  /// The kind of the innermost module being applied; empty if there is none.
  std::string layerKind() const;
  /// Different for every trace of the thread, never 0.
  std::uint64_t id() const { return id_; }

  /// Adds an input of the model. Its name must be unique.
  Tensor input(std::string name, TensorType type);

  /// The parameter's value in this trace: adds its variable to the graph at the first use.
  Tensor use(const Parameter& parameter);
  /// Writes a buffer; later uses in the trace see the new value.
  void assign(const Parameter& buffer, const Tensor& value);

 private:
  friend class ModuleScope;

  /// Enters the block that a BeginBlock set on the module, if there is one.
  void beginMarkedBlock(const Module& module);

  struct Read {
    const Parameter* parameter;
    ir::Value value;
  };

  ir::GraphBuilder builder_;
  TraceMode mode_;
  std::uint64_t id_;
  std::map<std::string, Read, std::less<>> reads_;  // by the variable's name
  const Module* module_ = nullptr;                  // the innermost module being applied
  BlockState blocks_;
  std::vector<MemoryHint> memoryHints_;
  std::optional<std::vector<ir::OpId>> openMultiConv_;
  bool namesModules_ = true;
  PrecisionSettings precision_;
  bool autocast_ = false;
};

/// The name scope of a module while it is applied. It is the module's path relative to the module
/// that applies it, so that nested calls give "encoder/0/fc/" only once. A module marked with
/// BeginBlock enters its block here, and the block continues after the module. While the module is
/// applied, its own autocast setting counts or, if it has none, that of the nearest module above
/// it, up to the one that applies it.
class [[nodiscard]] ModuleScope {
 public:
  [[nodiscard]] explicit ModuleScope(const Module& module);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  Tracer& tracer_;
  const Module* outer_;
  std::size_t outerLength_;
  bool outerAutocast_;
};

}  // namespace sluice::nn
