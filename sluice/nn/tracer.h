// Tracer: one trace in progress. Constructing it makes it the thread's current trace; modules and
// functions then append to its graph. It knows whether a training or an inference model is built
// and which parameters were already read, so that a weight is read once however often it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/ir/graph_builder.h"
#include "sluice/nn/precision.h"
#include "sluice/nn/tensor.h"

namespace sluice::nn {

class Module;
class Parameter;

enum class TraceMode : std::uint8_t { Inference, Training };

/// A block of the graph and its device; -1: none.
struct BlockPlace {
  std::int32_t block = -1;
  std::int32_t device = -1;
};

/// What a trace knows of its blocks; block.cpp works with it.
struct BlockState {
  struct Applied {
    const Module* module;
    std::string id;
  };

  BlockPlace begun;                        ///< of the last layer that begins a block
  int depth = 0;                           ///< Block scopes that are open
  std::optional<std::int64_t> nextAutoId;  ///< not set: blocks need an id
  std::vector<std::int32_t> devices;       ///< by block; -1: none
  std::vector<Applied> applied;            ///< layers that began a block, and which
};

/// The share of a device's memory that the op behind a value should do with.
struct MemoryHint {
  ir::Value value;
  double proportion;
};

class Tracer {
 public:
  /// Traces into `graph`. Throws InvalidArgument when this thread already traces.
  Tracer(ir::Graph& graph, TraceMode mode);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// The thread's trace; throws InvalidArgument when there is none.
  static Tracer& current();
  static bool active();

  ir::GraphBuilder& builder() { return builder_; }
  ir::Graph& graph() { return builder_.graph(); }
  bool training() const { return mode_ == TraceMode::Training; }
  /// Whether ops get the paths of the modules that make them as name prefixes; yes by default.
  void nameModules(bool on) { namesModules_ = on; }
  BlockState& blocks() { return blocks_; }
  /// What setAvailableMemory and MultiConv asked for.
  std::vector<MemoryHint>& memoryHints() { return memoryHints_; }
  /// The convolutions of the MultiConv that is open; no value: none is.
  std::optional<std::vector<ir::OpId>>& openMultiConv() { return openMultiConv_; }
  /// How functions bring their operands to one type.
  void setPrecision(PrecisionSettings settings) { precision_ = std::move(settings); }
  const PrecisionSettings& precision() const { return precision_; }
  /// The setting of the whole model counts where no nearer one does.
  void beginModel(const Module& root);
  /// Switches autocast and returns whether it was on (autocast.h).
  bool autocast(bool on) { return std::exchange(autocast_, on); }
  bool autocasts() const { return autocast_ && precision_.autocastEnabled; }
  /// The kind of the innermost module being applied; empty where there is none.
  std::string layerKind() const;
  /// Different for every trace of the thread, never 0.
  std::uint64_t id() const { return id_; }

  /// A new model input; names must differ.
  Tensor input(std::string name, TensorType type);

  /// The parameter's value in this trace: adds its variable to the graph at the first use.
  Tensor use(const Parameter& parameter);
  /// Writes a buffer; later uses in the trace see the new value.
  void assign(const Parameter& buffer, const Tensor& value);

 private:
  friend class ModuleScope;

  /// Enters the block that a BeginBlock put on the module, if there is one.
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

/// Prefixes the names of the ops made while it lives: "encoder/".
class [[nodiscard]] NameScope {
 public:
  [[nodiscard]] explicit NameScope(std::string_view name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  ir::GraphBuilder& builder_;
  std::size_t outerLength_;
};

/// The name scope of a module while it is applied: its path as seen from the module that applies
/// it, so that nested calls give "encoder/0/fc/" once. A module marked with BeginBlock enters its
/// block here, and the block goes on after it. The nearest autocast setting, of the module or of
/// one between it and the module that applies it, counts while it is applied.
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
