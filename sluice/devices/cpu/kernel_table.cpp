#include "sluice/devices/cpu/kernel_table.h"

#include <array>

#include "sluice/devices/cpu/kernels/kernels.h"

namespace sluice::devices::cpu {
namespace {

constexpr device::KernelEntry elementwise(std::string_view op) {
  return {.op = op,
          .implementation = "blocks",
          .supports = supportsElementwise,
          .choose = chooseElementwise,
          .make = makeElementwise};
}

constexpr std::array kEntries = {
    device::KernelEntry{.op = "assign", .implementation = "tiles", .make = makeAssign},
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
    elementwise("abs"),
    elementwise("add"),
    elementwise("broadcast_to"),
    elementwise("cast"),
    elementwise("ceil"),
    elementwise("clamp"),
    elementwise("cos"),
    elementwise("div"),
    elementwise("elu"),
    elementwise("equal"),
    elementwise("erf"),
    elementwise("exp"),
    elementwise("expm1"),
    elementwise("floor"),
    elementwise("fused"),
    elementwise("gelu"),
    elementwise("gelu_grad"),
    elementwise("greater"),
    elementwise("greater_equal"),
    elementwise("is_nan"),
    elementwise("leaky_relu"),
    elementwise("less"),
    elementwise("less_equal"),
    elementwise("log"),
    elementwise("log1p"),
    elementwise("logical_and"),
    elementwise("logical_not"),
    elementwise("logical_or"),
    elementwise("logical_xor"),
    elementwise("maximum"),
    elementwise("minimum"),
    elementwise("mul"),
    elementwise("neg"),
    elementwise("not_equal"),
    elementwise("pow"),
    elementwise("reciprocal"),
    elementwise("relu"),
    elementwise("relu_grad"),
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
    elementwise("round"),
    elementwise("rsqrt"),
    elementwise("sigmoid"),
    elementwise("sign"),
    elementwise("silu"),
    elementwise("sin"),
    elementwise("softplus"),
    elementwise("sqrt"),
    elementwise("square"),
    elementwise("sub"),
    elementwise("tanh"),
    elementwise("where"),
};

}  // namespace

std::span<const device::KernelEntry> kernelEntries() {
  return kEntries;
}

device::Tuning mergedTuning(const device::Tuning& overrides) {
  device::Tuning tuning;
  for (const auto& [key, value] : overrides) {
    tuning.insert_or_assign(key, value);
  }
  return tuning;
}

std::string describeCpu() {
  return "generic";
}

}  // namespace sluice::devices::cpu
