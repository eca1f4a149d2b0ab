// Blocks: annotations that say where a model may be cut. There are three forms, which can be mixed:
// Block is a scope; BlockFunction is a callable that runs in one; BeginBlock marks a layer as the
// start of a block, for models whose code should not change. Every op of the traced graph has a
// block and its device; strategies turn blocks into stages.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/nn/module.h"

#pragma GCC visibility push(default)

namespace sluice::ir {
class Graph;
class GraphBuilder;
}  // namespace sluice::ir

namespace sluice::nn {

class Tracer;

/// A block of the graph and its device; -1: none.
struct BlockPlace {
  std::int32_t block = -1;
  std::int32_t device = -1;
};

/// The block of the ops that are traced before the first BeginBlock.
inline constexpr std::string_view kImplicitBlock = "implicit";

/// Puts the ops made during its lifetime into a block, optionally on a device: `Block b("B1", 0);`.
/// If blocks are nested, the innermost one counts. The same id always means the same block, which
/// has one device: giving it a second one throws InvalidArgument.
class [[nodiscard]] Block {
 public:
  /// Throws InvalidArgument for an empty id, for a negative device, and outside a trace.
  [[nodiscard]] explicit Block(std::string_view id,
                               std::optional<std::int64_t> device = std::nullopt);
  /// Uses the next number as its id. Throws InvalidArgument unless useAutoId was called.
  [[nodiscard]] Block();
  template <std::integral Device>
  [[nodiscard]] explicit Block(Device device)
      : Block(nextId(), static_cast<std::int64_t>(device)) {}
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// From here to the end of this forward pass, blocks without an id get "0", "1", ... in order.
  static void useAutoId();

 private:
  static std::string nextId();

  Tracer& tracer_;
  BlockPlace outer_;
};

/// A callable whose ops belong to a block: `BlockFunction act("B2", 1, [](Tensor x) { ... });`.
template <class F>
class BlockFunction {
 public:
  BlockFunction(std::string id, std::optional<std::int64_t> device, F f)
      : id_(std::move(id)), device_(device), f_(std::move(f)) {}
  BlockFunction(std::string id, F f) : BlockFunction(std::move(id), std::nullopt, std::move(f)) {}

  template <class... Args>
  decltype(auto) operator()(Args&&... args) {
    const Block block(id_, device_);
    return f_(std::forward<Args>(args)...);
  }

 private:
  std::string id_;
  std::optional<std::int64_t> device_;
  F f_;
};

template <class F>
BlockFunction(std::string, std::int64_t, F) -> BlockFunction<F>;

/// Marks a layer: all ops from the layer's application to the next BeginBlock belong to the block.
/// Ops before the first BeginBlock are in kImplicitBlock; its device number is one less than that
/// of the first BeginBlock, but at least 0. Names and values of parameters do not change. Throws
/// InvalidArgument for a layer that already begins a block, for an empty id, and for a negative
/// device.
class BeginBlock {
 public:
  BeginBlock(Module& layer, std::string id, std::optional<std::int64_t> device = std::nullopt);
  /// Uses the next number as its id; forward must call Block::useAutoId.
  explicit BeginBlock(Module& layer);
  template <std::integral Device>
  BeginBlock(Module& layer, Device device) : BeginBlock(layer, kNumbered, device) {}

 private:
  struct Numbered {};
  static constexpr Numbered kNumbered{};
  BeginBlock(Module& layer, Numbered numbered, std::optional<std::int64_t> device);
};

/// Removes the marks of BeginBlock from a module and all modules below it.
void removeBlocks(Module& module);

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

/// Throws InvalidArgument ("no active block") if the graph has blocks and an op outside all of
/// them. Inputs, constants and reads of variables need no block.
void requireBlocks(const ir::Graph& graph);
/// Throws InvalidArgument, naming the block and the op, if an op in a block has results that reach
/// neither an output nor an op with an effect. Views, which compute nothing, may be unused.
void requireLiveBlocks(const ir::Graph& graph);
/// Throws InvalidArgument for a layer below the module that begins a block and was not applied in
/// the current trace.
void requireBegunBlocks(const Module& module);

// Autocast: while it is on, functions get their operands in the types that the options' policy
// prescribes. It is off by default. A scope in the code, a wrapped function, a layer
// (Module::autocast) or the model can set it; the innermost setting counts.
//
//   net.autocast();                                  // all of it ...
//   net.conv2.autocast(false);                       // ... but for this layer
//   { const nn::Autocast off(false); x = relu(x); }  // ... and for these lines

class Tracer;

/// Switches autocast on or off for the ops that are traced during its lifetime.
class [[nodiscard]] Autocast {
 public:
  /// Throws InvalidArgument outside a trace.
  [[nodiscard]] explicit Autocast(bool enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  Tracer& tracer_;
  bool outer_;
};

/// A callable that runs with autocast on or off: `auto f = autocasted([](Tensor x) { ... });`.
template <class F>
[[nodiscard]] auto autocasted(F f, bool enabled = true) {
  return [f = std::move(f), enabled]<class... Args>(Args&&... args) mutable -> decltype(auto) {
    const Autocast scope(enabled);
    return f(std::forward<Args>(args)...);
  };
}

}  // namespace sluice::nn

#pragma GCC visibility pop
