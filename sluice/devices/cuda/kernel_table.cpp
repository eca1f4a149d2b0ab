#include "sluice/devices/cuda/kernel_table.h"

#include <algorithm>
#include <array>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/kernels/kernels.h"

namespace sluice::devices::cuda {
namespace {

using Supports = bool (*)(const ir::OpView&);
using Choose = device::Choice (*)(const ir::OpView&, const device::Tuning&);
using Generate = Source (*)(const ir::OpView&);

constexpr KernelEntry generated(std::string_view op,
                                Generate generate,
                                Supports supports = nullptr,
                                Choose choose = nullptr) {
  return {{.op = op, .implementation = "generated", .supports = supports, .choose = choose},
          generate};
}

constexpr KernelEntry element(std::string_view op) {
  return generated(op, elementwiseSource, supportsElementwise);
}

constexpr KernelEntry reduction(std::string_view op) {
  return generated(op, reduceSource, nullptr, chooseReduce);
}

constexpr KernelEntry window(std::string_view op, Generate generate) {
  return generated(op, generate, supportsWindow);
}

constexpr KernelEntry copied(std::string_view op) {
  return {{.op = op, .implementation = "copy"}, nullptr, makeCopy};
}

constexpr std::array kEntries = {
    element("abs"),
    element("acos"),
    element("acosh"),
    element("add"),
    generated("argmax", argmaxSource),
    element("asin"),
    element("asinh"),
    generated("assign", assignSource),
    element("atan"),
    element("atan2"),
    element("atanh"),
    window("avg_pool", avgPoolSource),
    window("avg_pool_grad", avgPoolGradSource),
    generated("batch_norm", batchNormSource),
    generated("batch_norm_grad", batchNormGradSource),
    element("bit_shift"),
    element("bitwise_and"),
    element("bitwise_not"),
    element("bitwise_or"),
    element("bitwise_xor"),
    element("broadcast_to"),
    element("cast"),
    element("ceil"),
    element("clamp"),
    generated("concat", concatSource),
    window("conv", convSource),
    window("conv_grad_input", convGradInputSource),
    window("conv_grad_weight", convGradWeightSource),
    element("cos"),
    element("cosh"),
    generated("cumsum", cumsumSource),
    copied("detach"),
    element("div"),
    generated("dropout", dropoutSource),
    element("elu"),
    element("equal"),
    element("erf"),
    element("exp"),
    element("expm1"),
    element("floor"),
    generated("fused", fusedSource, supportsFused),
    generated("gather", gatherSource),
    element("gelu"),
    element("gelu_grad"),
    element("greater"),
    element("greater_equal"),
    copied("identity"),
    generated("iota", iotaSource),
    element("is_nan"),
    generated("layer_norm", layerNormSource),
    generated("layer_norm_grad", layerNormGradSource),
    element("leaky_relu"),
    element("less"),
    element("less_equal"),
    element("log"),
    element("log1p"),
    generated("log_softmax", softmaxSource),
    generated("log_softmax_grad", softmaxGradSource),
    element("logical_and"),
    element("logical_not"),
    element("logical_or"),
    element("logical_xor"),
    KernelEntry{{.op = "matmul",
                 .implementation = "cublaslt",
                 .supports = supportsMatMul,
                 .choose = chooseMatMul},
                nullptr,
                makeMatMul},
    window("max_pool", maxPoolSource),
    window("max_pool_grad", maxPoolGradSource),
    element("maximum"),
    element("minimum"),
    element("mod"),
    element("mul"),
    element("neg"),
    generated("nll_loss", nllLossSource),
    generated("nll_loss_grad", nllLossGradSource, nullptr, chooseNllLossGrad),
    copied("nop"),
    element("not_equal"),
    generated("one_hot", oneHotSource),
    generated("pad", padSource),
    element("pow"),
    generated("random_normal", randomNormalSource),
    generated("random_uniform", randomUniformSource),
    element("reciprocal"),
    copied("recomputation_checkpoint"),
    reduction("reduce_max"),
    reduction("reduce_mean"),
    reduction("reduce_min"),
    reduction("reduce_prod"),
    reduction("reduce_sum"),
    element("relu"),
    element("relu_grad"),
    copied("reorder"),
    copied("reshape"),
    generated("reverse", reverseSource),
    generated("rms_norm", rmsNormSource),
    generated("rms_norm_grad", rmsNormGradSource),
    element("round"),
    element("rsqrt"),
    generated("scatter_add", scatterAddSource),
    element("sigmoid"),
    element("sign"),
    element("silu"),
    element("sin"),
    element("sinh"),
    generated("slice", sliceSource),
    generated("slice_scatter", sliceScatterSource),
    generated("softmax", softmaxSource),
    generated("softmax_grad", softmaxGradSource),
    element("softplus"),
    generated("split", splitSource),
    element("sqrt"),
    element("square"),
    element("sub"),
    element("tan"),
    element("tanh"),
    copied("tensor_location"),
    generated("tile", tileSource),
    generated("transpose", transposeSource),
    generated("trilu", triluSource),
    element("where"),
};

static_assert(std::ranges::is_sorted(kEntries, {}, &KernelEntry::op));

/// Composites are better replaced by parts that have kernels.
bool isForHost(const ir::OpView& op) {
  return op.def.reference != nullptr && op.def.decompose == nullptr;
}

}  // namespace

std::span<const KernelEntry> kernelEntries() {
  return kEntries;
}

std::vector<device::KernelEntry> tableEntries() {
  std::vector<device::KernelEntry> all(kEntries.begin(), kEntries.end());
  all.push_back({.op = device::kAnyOp, .implementation = device::kOnHost, .supports = isForHost});
  return all;
}

const KernelEntry& entryOf(const ir::OpView& op, const device::Choice& choice) {
  const auto* const first = std::ranges::lower_bound(kEntries, op.def.name, {}, &KernelEntry::op);
  for (const auto* entry = first; entry != kEntries.end() && entry->op == op.def.name; ++entry) {
    if (entry->implementation == choice.implementation) {
      return *entry;
    }
  }
  raise<Unsupported>("CUDA has no kernel '{}' for {}", choice.implementation, op.def.name);
}

std::unique_ptr<Kernel> makeKernel(const ir::OpView& op,
                                   const device::Choice& choice,
                                   const MakeContext& context) {
  const KernelEntry& entry = entryOf(op, choice);
  return entry.generate != nullptr ? makeGenerated(entry.generate(op), context)
                                   : entry.make(op, choice, context);
}

}  // namespace sluice::devices::cuda
