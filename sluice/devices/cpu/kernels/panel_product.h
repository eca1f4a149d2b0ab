// Blocks of a product whose right operand lies in panels: what one tile of a matmul or of a
// convolution computes. Every element is one chain of multiply-adds in the order of k
// (vector_product.h), so tiles may be as fine as threads want them: no bit depends on the cut.
#pragma once

#include <cstdint>

#include "sluice/devices/cpu/kernels/pack_matrix.h"
#include "sluice/devices/cpu/kernels/vector_product.h"

namespace sluice::devices::cpu {

/// Columns of a panel: whole lines of the cache, and what registers hold on wide machines.
std::int64_t panelWidth(std::int64_t columns);

/// [k, columns] in panels.
PanelFormat panelsOf(std::int64_t k, std::int64_t columns);

/// Panels [first, end) of the result, all rows of `left`.
struct PanelBlock {
  LeftMatrix left;
  const float* panels = nullptr;  ///< the first of all
  ResultMatrix result;            ///< its first column is that of panel 0
  std::int64_t rows = 0;
  std::int64_t k = 0;
  std::int64_t firstPanel = 0;
  std::int64_t endPanel = 0;
  bool adds = false;  ///< continues the chains that the result holds
};

void multiplyPanels(const PanelFormat& format, const PanelBlock& block);

/// How a result is cut into tiles, by its shape alone.
struct PanelTiles {
  std::int64_t rows = 0;    ///< of a tile
  std::int64_t panels = 0;  ///< of a tile
  std::int64_t rowBlocks = 0;
  std::int64_t panelGroups = 0;

  std::int64_t count() const { return rowBlocks * panelGroups; }
};

PanelTiles panelTiles(std::int64_t rows, const PanelFormat& format);

/// Packs one panel of a matrix [k, columns] with adjacent columns; `stride` is from row to row.
void copyPanel(const PanelFormat& format,
               const float* from,
               std::int64_t stride,
               float* to,
               std::int64_t panel);

}  // namespace sluice::devices::cpu
