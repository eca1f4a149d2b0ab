// The plan of a convolution or of one of its gradients: the layouts that it works in, and the
// primitives for its tiles (ranges of images). Private to the convolution kernels.
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

/// The decision of the tuning table or of the rule: storage of x and y, and the number of tiles.
struct ConvConfig {
  bool xChannelsLast = true;
  bool yChannelsLast = true;
  std::int64_t tiles = 1;

  std::string str() const;  ///< "c p 4"
};

/// Throws ConfigFileError.
ConvConfig parseConvConfig(const std::string& text);

/// Images [first, first + count), and the primitives that run `strip` of them at a time and then
/// the rest. A tile is one strip; only 16-bit floats that are converted go strip by strip.
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
  /// What the primitives read: float32, or bfloat16 where the machine multiplies it.
  DType compute = DType::F32;
  dnnl::memory::desc weights = {};       ///< in the format of the primitives
  dnnl::memory::desc plainWeights = {};  ///< in the format of the tensor, with the same extents
  std::vector<ConvTile> tiles = {};
  std::size_t perTile = 0;  ///< scratchpad bytes

  std::int64_t xPerImage() const { return dims.inChannels * dims.inSize(); }
  std::int64_t yPerImage() const { return dims.outChannels * dims.outSize(); }
  /// The number of images in the longest strip.
  std::int64_t strip() const { return tiles[0].strip; }
};

bool supportsConv(const ir::OpView& op);

/// The key of the op in the tuning table.
std::string convKey(const ir::OpView& op);

/// The number of tiles or grains that the rule gives.
std::int64_t convTiles(const ir::OpView& op);

/// So few channels do not fill a vector.
inline constexpr std::int64_t kFewChannels = 3;
/// Whether matrix products on plain storage are the fastest way.
bool likesPlain(const ir::OpView& op);

/// Reads the tuning table or applies the rule: the storage for which oneDNN has its best kind of
/// implementation; among equals, channels last.
ConvConfig chooseConvConfig(const ir::OpView& op, const device::Tuning& tuning);

/// Returns nullopt if oneDNN has no such primitive.
std::optional<ConvPlan> planConv(const ir::OpView& op, const ConvConfig& config);

/// The layout of an activation; plain if both layouts have the same bytes.
device::Layout activationLayout(const TensorType& type, bool channelsLast);

}  // namespace sluice::devices::cpu
