// Blocks: the annotation that says how a model may be cut. Three forms that can be mixed: Block, a
// scope; BlockFunction, a callable that runs in one; BeginBlock, a mark on a layer from which on
// everything belongs to a block, for models whose code is not to be changed. The traced graph holds
// a block and its device on every op; strategies make stages of them.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/ir/graph.h"
#include "sluice/nn/module.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {

/// The block of the ops that come before the first BeginBlock.
inline constexpr std::string_view kImplicitBlock = "implicit";

/// Ops made while it lives belong to the block, optionally on a device: `Block b("B1", 0);`.
/// Blocks may be nested; the inner one counts. The same id twice is the same block, and has one
/// device: InvalidArgument if it is given two.
class [[nodiscard]] Block {
 public:
  /// Throws InvalidArgument for an empty id, a negative device, or outside a trace.
  [[nodiscard]] explicit Block(std::string_view id,
                               std::optional<std::int64_t> device = std::nullopt);
  /// Its id is the next number; throws InvalidArgument unless useAutoId was called.
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

/// Marks a layer: from where it is applied, everything belongs to the block, until the next
/// BeginBlock; ops before the first one are in kImplicitBlock, on the device before the first
/// one's. Names and values of parameters stay what they are. Throws InvalidArgument for a layer
/// that already begins a block, an empty id or a negative device.
class BeginBlock {
 public:
  BeginBlock(Module& layer, std::string id, std::optional<std::int64_t> device = std::nullopt);
  /// With the next number as its id, which needs Block::useAutoId in forward.
  explicit BeginBlock(Module& layer);
  template <std::integral Device>
  BeginBlock(Module& layer, Device device) : BeginBlock(layer, kNumbered, device) {}

 private:
  struct Numbered {};
  static constexpr Numbered kNumbered{};
  BeginBlock(Module& layer, Numbered numbered, std::optional<std::int64_t> device);
};

/// Takes the marks of BeginBlock off a module and all below it.
void removeBlocks(Module& module);

/// Throws InvalidArgument ("no active block") if the graph has blocks and an op outside of them.
/// Inputs, constants and reads of variables need none.
void requireBlocks(const ir::Graph& graph);
/// Throws InvalidArgument, naming block and op, if the graph has blocks and an op in one of them
/// whose results reach neither an output nor an op with an effect. Views, which compute nothing,
/// may be left unused.
void requireLiveBlocks(const ir::Graph& graph);
/// Throws InvalidArgument for a layer below the module that begins a block and was not applied in
/// the current trace.
void requireBegunBlocks(const Module& module);

}  // namespace sluice::nn
