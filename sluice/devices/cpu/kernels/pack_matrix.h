// Packs the transpose of a row-major float32 matrix into panels, the format in which products take
// their right operand. oneDNN's own reorder gathers it float by float; here squares of it are
// transposed in registers. Values are only moved, so bits cannot change.
#pragma once

#include <cstdint>
#include <optional>

#include "sluice/base/workers.h"
#include "sluice/devices/cpu/kernels/onednn.h"

namespace sluice::devices::cpu {

/// Where the elements of a matrix [across, down] go: row j, column i lies at i / downBlock *
/// downStride + i % downBlock * width + j / width * panelStride + j % width. Panels are filled up
/// with zeros. Blocks and width are multiples of 16.
struct PanelFormat {
  std::int64_t down = 0;
  std::int64_t across = 0;
  std::int64_t downBlock = 0;
  std::int64_t width = 0;
  std::int64_t downStride = 0;
  std::int64_t panelStride = 0;
  std::int64_t paddedDown = 0;
  std::int64_t panels = 0;
};

/// Nothing if the format of the matrix is not one of such panels.
std::optional<PanelFormat> panelFormat(const dnnl::memory::desc& desc);

/// Where a matrix lies; strides in elements.
struct MatrixPlace {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  ///< from row to row
};

/// to[j * toStride + i] = from[i * place.stride + j].
void transposeMatrix(const MatrixPlace& place, const float* from, float* to, std::int64_t toStride);

void packMatrix(const PanelFormat& format, const float* from, float* to, Workers& workers);

}  // namespace sluice::devices::cpu
