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

constexpr device::KernelEntry reduction(std::string_view op) {
  return {.op = op,
          .implementation = "grains",
          .supports = supportsReduce,
          .choose = chooseReduce,
          .make = makeReduce};
}

constexpr std::array kEntries = {
    elementwise("abs"),
    elementwise("add"),
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
    elementwise("broadcast_to"),
    elementwise("cast"),
    elementwise("ceil"),
    elementwise("clamp"),
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
    elementwise("cos"),
    elementwise("div"),
    device::KernelEntry{.op = "dropout", .implementation = "tiles", .make = makeDropout},
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
    device::KernelEntry{.op = "layer_norm",
                        .implementation = "rows",
                        .supports = supportsLayerNorm,
                        .make = makeLayerNorm},
    device::KernelEntry{.op = "layer_norm_grad",
                        .implementation = "rows",
                        .supports = supportsLayerNorm,
                        .choose = chooseLayerNormGrad,
                        .make = makeLayerNormGrad},
    elementwise("leaky_relu"),
    elementwise("less"),
    elementwise("less_equal"),
    elementwise("log"),
    elementwise("log1p"),
    device::KernelEntry{.op = "log_softmax",
                        .implementation = "rows",
                        .supports = supportsSoftmax,
                        .make = makeSoftmax},
    device::KernelEntry{.op = "log_softmax_grad",
                        .implementation = "rows",
                        .supports = supportsSoftmax,
                        .make = makeSoftmax},
    elementwise("logical_and"),
    elementwise("logical_not"),
    elementwise("logical_or"),
    elementwise("logical_xor"),
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
    elementwise("maximum"),
    elementwise("minimum"),
    elementwise("mul"),
    elementwise("neg"),
    elementwise("not_equal"),
    elementwise("pow"),
    device::KernelEntry{
        .op = "random_uniform", .implementation = "tiles", .make = makeRandomUniform},
    elementwise("reciprocal"),
    reduction("reduce_max"),
    reduction("reduce_mean"),
    reduction("reduce_min"),
    reduction("reduce_sum"),
    elementwise("relu"),
    elementwise("relu_grad"),
    device::KernelEntry{.op = "reorder", .implementation = "strided", .make = makeReorder},
    device::KernelEntry{.op = "rms_norm",
                        .implementation = "rows",
                        .supports = supportsLayerNorm,
                        .make = makeLayerNorm},
    device::KernelEntry{.op = "rms_norm_grad",
                        .implementation = "rows",
                        .supports = supportsLayerNorm,
                        .choose = chooseLayerNormGrad,
                        .make = makeLayerNormGrad},
    elementwise("round"),
    elementwise("rsqrt"),
    elementwise("sigmoid"),
    elementwise("sign"),
    elementwise("silu"),
    elementwise("sin"),
    device::KernelEntry{.op = "softmax",
                        .implementation = "rows",
                        .supports = supportsSoftmax,
                        .make = makeSoftmax},
    device::KernelEntry{.op = "softmax_grad",
                        .implementation = "rows",
                        .supports = supportsSoftmax,
                        .make = makeSoftmax},
    elementwise("softplus"),
    elementwise("sqrt"),
    elementwise("square"),
    elementwise("sub"),
    elementwise("tanh"),
    device::KernelEntry{.op = "transpose", .implementation = "blocks", .make = makeTranspose},
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
