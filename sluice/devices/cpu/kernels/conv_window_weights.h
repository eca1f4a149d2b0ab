// The weights of conv_windows: a matrix [taps * summed channels, columns] in panels that follow
// each other closely. Columns are the output's channels forward and the input's in the gradient.
#pragma once

#include <memory>

#include "sluice/devices/cpu/kernel.h"
#include "sluice/devices/cpu/kernels/onednn.h"
#include "sluice/devices/cpu/kernels/panel_product.h"
#include "sluice/ops/conv.h"

namespace sluice::devices::cpu {

/// Floats of windows up to which all are gathered together.
inline constexpr std::int64_t kMostShared = 1 << 20;
/// Weights from which on they leave the second cache before all pixels have met them.
inline constexpr std::int64_t kManyWeights = 1 << 18;

/// The product that a pass is: a row of `terms` for every pixel, times [terms, columns].
struct WindowProduct {
  WindowProduct(const ops::ConvDims& d, bool forward);

  std::int64_t pixels;
  std::int64_t terms;
  std::int64_t columns;

  std::int64_t weights() const { return terms * columns; }
};

/// Many weights are best read once, by a tile that has all pixels; narrow panels make enough such
/// tiles.
PanelFormat windowPanels(const WindowProduct& product);

/// The same as oneDNN describes it, for weights [out, in, taps].
dnnl::memory::desc describeWindowWeights(const ops::ConvDims& d, bool forward);

/// Packs weights into this format; nullptr if it is another one.
std::unique_ptr<Kernel> makePackWindows(const dnnl::memory::desc& desc);

}  // namespace sluice::devices::cpu
