#include "sluice/devices/cpu/kernels/panel_product.h"

#include <algorithm>
#include <cstring>

#include "sluice/devices/cpu/kernels/grains.h"

namespace sluice::devices::cpu {
namespace {

constexpr std::int64_t kWidest = 64;
constexpr std::int64_t kVector = 16;
/// Rows of k that are multiplied at a time: a panel of them stays in the second cache, together
/// with those of a tile's rows.
constexpr std::int64_t kDepth = 512;
/// Rows of a tile. More would not fit the cache; with far fewer, reading panels takes the time.
constexpr std::int64_t kTileRows = 96;
/// Rows that are computed together by every kind of vectors.
constexpr std::int64_t kRowStep = 12;
/// Tiles of less work are not worth a thread.
constexpr double kFlopsPerTile = 3e6;
constexpr double kMostTiles = 256;

/// About equal parts, whole multiples of `unit`.
std::int64_t equalParts(std::int64_t extent, std::int64_t count, std::int64_t unit) {
  return std::max(unit, ceilDiv(ceilDiv(extent, count), unit) * unit);
}

}  // namespace

std::int64_t panelWidth(std::int64_t columns) {
  return std::min(kWidest, ceilDiv(columns, kVector) * kVector);
}

PanelFormat panelsOf(std::int64_t k, std::int64_t columns) {
  const std::int64_t width = panelWidth(columns);
  const std::int64_t padded = ceilDiv(k, kVector) * kVector;
  return {.down = k,
          .across = columns,
          .downBlock = kVector,
          .width = width,
          .downStride = kVector * width,
          .panelStride = padded * width,
          .paddedDown = padded,
          .panels = ceilDiv(columns, width)};
}

/// What follows a slab of one panel whose rows end there, as long as that is of the same panel: it
/// is read next if the block has no other.
std::span<const float> nextSlab(const PanelFormat& format,
                                const PanelBlock& block,
                                std::int64_t panel,
                                std::int64_t end) {
  const std::int64_t left = std::min(kDepth, block.k - end);
  if (block.endPanel - block.firstPanel > 1 || left <= 0 || format.plain) {
    return {};
  }
  return {block.panels + panel * format.panelStride + end * format.rowStride,
          static_cast<std::size_t>(left * format.rowStride)};
}

void multiplyPanels(const PanelFormat& format, const PanelBlock& block) {
  const std::int64_t step = ceilDiv(block.k, ceilDiv(block.k, kDepth));
  for (std::int64_t first = 0; first < block.k; first += step) {
    const std::int64_t depth = std::min(step, block.k - first);
    const bool adds = block.adds || first > 0;
    for (std::int64_t panel = block.firstPanel; panel < block.endPanel; ++panel) {
      const std::int64_t column = panel * format.width;
      const ProductPart part{0, 0, depth};
      const float* slab = block.panels + panel * format.panelStride + first * format.rowStride;
      multiplyParts({.left = {block.left.data + first * block.left.kStride,
                              block.left.rowStride,
                              block.left.kStride},
                     .right = {slab, format.rowStride, format.width, 0},
                     .result = {block.result.data + column, block.result.rowStride},
                     .extents = {block.rows, std::min(format.width, format.across - column)},
                     .parts = {&part, 1},
                     .adds = adds,
                     .next = nextSlab(format, block, panel, first + depth)});
    }
  }
}

PanelTiles panelTiles(std::int64_t rows, const PanelFormat& format) {
  const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(format.across) *
                       static_cast<double>(format.down);
  const auto wanted = static_cast<std::int64_t>(std::clamp(flops / kFlopsPerTile, 1.0, kMostTiles));
  PanelTiles tiles;
  tiles.rows = equalParts(rows, ceilDiv(rows, kTileRows), kRowStep);
  tiles.rowBlocks = ceilDiv(rows, tiles.rows);
  tiles.panels = ceilDiv(format.panels, ceilDiv(wanted, tiles.rowBlocks));
  tiles.panelGroups = ceilDiv(format.panels, tiles.panels);
  return tiles;
}

void copyPanel(const PanelFormat& format,
               const float* from,
               std::int64_t stride,
               float* to,
               std::int64_t panel) {
  const std::int64_t first = panel * format.width;
  const auto used = static_cast<std::size_t>(std::min(format.width, format.across - first));
  const std::size_t rest = static_cast<std::size_t>(format.width) - used;
  float* row = to + panel * format.panelStride;
  for (std::int64_t k = 0; k < format.down; ++k, row += format.width) {
    std::memcpy(row, from + k * stride + first, used * sizeof(float));
    std::memset(row + used, 0, rest * sizeof(float));
  }
}

}  // namespace sluice::devices::cpu
