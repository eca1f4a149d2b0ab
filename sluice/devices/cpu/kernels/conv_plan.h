// How a convolution or one of its gradients is run: the layouts it works in, and the primitives for
// its tiles (ranges of images). Private to the convolution kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cpu/kernels/onednn.h"
#include "sluice/ops/conv.h"

namespace sluice::devices::cpu {

enum class ConvPass : std::uint8_t { Forward, GradInput, GradWeight };

/// The pass that an op of this name computes.
ConvPass convPass(const ir::OpView& op);

/// What the tuning table or the rule decides: storage of x and y while computing, number of tiles.
struct ConvConfig {
  bool xChannelsLast = true;
  bool yChannelsLast = true;
  std::int64_t tiles = 1;

  std::string str() const;  ///< "c p 4"
};

/// Throws ConfigFileError.
ConvConfig parseConvConfig(const std::string& text);

/// Images [first, first + count), and the primitives that run them `strip` at a time and then the
/// rest. A tile of 32-bit floats is one strip; 16-bit floats are converted strip by strip.
struct ConvTile {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t strip = 0;
  dnnl::primitive_desc_base desc = {};
  dnnl::primitive_desc_base rest = {};  ///< empty if strips divide the tile

  bool hasStrips() const { return strip < count; }
};

struct ConvPlan {
  ConvPass pass = ConvPass::Forward;
  ops::ConvDims dims = {};
  ConvConfig config = {};
  dnnl::memory::desc weights = {};       ///< as the primitives want them
  dnnl::memory::desc plainWeights = {};  ///< as the tensor has them, in the same extents
  std::vector<ConvTile> tiles = {};
  std::size_t perTile = 0;  ///< bytes of scratchpad

  std::int64_t xPerImage() const { return dims.inChannels * dims.inSize(); }
  std::int64_t yPerImage() const { return dims.outChannels * dims.outSize(); }
  /// Images of the longest strip.
  std::int64_t strip() const { return tiles[0].strip; }
};

bool supportsConv(const ir::OpView& op);

/// The key of the op in the tuning table.
std::string convKey(const ir::OpView& op);

/// Tiles or grains by rule.
std::int64_t convTiles(const ir::OpView& op);

/// Channels that are too few to fill vectors with.
inline constexpr std::int64_t kFewChannels = 3;
/// Whether matrix products on plain storage are the quickest way.
bool likesPlain(const ir::OpView& op);

/// From the tuning table, or else by rule: the storage for which oneDNN has its best kind of
/// implementation, channels last before plain.
ConvConfig chooseConvConfig(const ir::OpView& op, const device::Tuning& tuning);

/// Nothing if oneDNN has no such primitive.
std::optional<ConvPlan> planConv(const ir::OpView& op, const ConvConfig& config);

/// Layout of an activation; plain where that is the same bytes.
device::Layout activationLayout(const TensorType& type, bool channelsLast);

}  // namespace sluice::devices::cpu
