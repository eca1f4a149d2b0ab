// The weights of conv_windows: a matrix [taps * summed channels, columns] in panels that follow
// each other closely. Columns are the output's channels forward and the input's in the gradient.
#pragma once

#include <memory>

#include "sluice/devices/cpu/kernel.h"
#include "sluice/devices/cpu/kernels/onednn.h"
#include "sluice/devices/cpu/kernels/panel_product.h"
#include "sluice/ops/conv.h"

namespace sluice::devices::cpu {

PanelFormat windowPanels(std::int64_t terms, std::int64_t columns);

/// The same as oneDNN describes it, for weights [out, in, taps].
dnnl::memory::desc describeWindowWeights(const ops::ConvDims& d, bool forward);

/// Packs weights into this format; nullptr if it is another one.
std::unique_ptr<Kernel> makePackWindows(const dnnl::memory::desc& desc);

}  // namespace sluice::devices::cpu
