#include "sluice/devices/cpu/kernel_table.h"

#include <array>

#include "sluice/devices/cpu/kernels/kernels.h"

namespace sluice::devices::cpu {
namespace {

constexpr std::array kEntries = {
    device::KernelEntry{.op = "avg_pool",
                        .implementation = "strips",
                        .supports = supportsPool,
                        .choose = choosePool,
                        .make = makeAvgPool},
    device::KernelEntry{.op = "avg_pool_grad",
                        .implementation = "strips",
                        .supports = supportsPool,
                        .choose = choosePool,
                        .make = makeAvgPool},
    device::KernelEntry{.op = "conv",
                        .implementation = "onednn",
                        .supports = supportsConv,
                        .choose = chooseConv,
                        .make = makeConv},
    device::KernelEntry{.op = "conv_grad_input",
                        .implementation = "onednn",
                        .supports = supportsConv,
                        .choose = chooseConv,
                        .make = makeConv},
    device::KernelEntry{.op = "conv_grad_weight",
                        .implementation = "onednn",
                        .supports = supportsConv,
                        .choose = chooseConvGradWeight,
                        .make = makeConvGradWeight},
    device::KernelEntry{.op = "matmul",
                        .implementation = "onednn",
                        .supports = supportsMatMul,
                        .choose = chooseMatMul,
                        .make = makeMatMul},
    device::KernelEntry{.op = "max_pool",
                        .implementation = "strips",
                        .supports = supportsPool,
                        .choose = choosePool,
                        .make = makeMaxPool},
    device::KernelEntry{.op = "max_pool_grad",
                        .implementation = "strips",
                        .supports = supportsPool,
                        .choose = choosePool,
                        .make = makeMaxPoolGrad},
    device::KernelEntry{.op = "reorder", .implementation = "strided", .make = makeReorder},
};

}  // namespace

std::span<const device::KernelEntry> kernelEntries() {
  return kEntries;
}

}  // namespace sluice::devices::cpu
