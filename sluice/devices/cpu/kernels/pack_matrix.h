// Packs the transpose of a row-major float32 matrix into panels, the format of the right operand of
// products. oneDNN's own reorder gathers it float by float; this code transposes squares in
// registers. Values are only moved, so their bits do not change.
#pragma once

#include <cstdint>
#include <optional>

#include "sluice/base/workers.h"
#include "sluice/devices/cpu/kernels/onednn.h"

namespace sluice::devices::cpu {

/// The format of a packed matrix [across, down]: row j, column i is at i / downBlock * downStride +
/// i % downBlock * width + j / width * panelStride + j % width. Panels are filled up with zeros.
/// Blocks and width are multiples of 16.
struct PanelFormat {
  std::int64_t down = 0;
  std::int64_t across = 0;
  std::int64_t downBlock = 0;
  std::int64_t width = 0;
  std::int64_t downStride = 0;
  std::int64_t panelStride = 0;
  std::int64_t paddedDown = 0;
  std::int64_t panels = 0;
  bool plain = false;              ///< not packed: row-major, panels are some columns each
  std::int64_t rowStride = width;  ///< from one row of a panel to the next
};

/// Returns nullopt if the matrix is not in such a format.
std::optional<PanelFormat> panelFormat(const dnnl::memory::desc& desc);

/// The position of a matrix; strides are in elements.
struct MatrixPlace {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  ///< from row to row
};

/// to[j * toStride + i] = from[i * place.stride + j].
void transposeMatrix(const MatrixPlace& place, const float* from, float* to, std::int64_t toStride);

/// One panel of it.
void packPanel(const PanelFormat& format, const float* from, float* to, std::int64_t panel);

void packMatrix(const PanelFormat& format, const float* from, float* to, Workers& workers);

}  // namespace sluice::devices::cpu
