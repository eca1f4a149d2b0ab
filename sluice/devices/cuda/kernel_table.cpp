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

/// A kernel that takes its operands in the layout that they have.
constexpr KernelEntry following(std::string_view op,
                                Source (*source)(const ir::OpView&, const device::Choice&),
                                Supports supports,
                                Choose choose = chooseFollowing) {
  return {{.op = op, .implementation = "generated", .supports = supports, .choose = choose},
          nullptr,
          nullptr,
          source};
}

constexpr KernelEntry element(std::string_view op) {
  return following(op, elementwiseSource, supportsElementwise);
}

constexpr KernelEntry reduction(std::string_view op) {
  return generated(op, reduceSource, nullptr, chooseReduce);
}

device::Choice choosePlain(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  return device::plainChoice(op, "");
}

constexpr KernelEntry pool(std::string_view op,
                           Source (*source)(const ir::OpView&, const device::Choice&)) {
  return following(op, source, supportsWindow);
}

constexpr KernelEntry convolution(std::string_view op,
                                  Source (*source)(const ir::OpView&, const device::Choice&)) {
  return following(op, source, supportsWindow, choosePlain);
}

constexpr KernelEntry cudnnConvolution(std::string_view op) {
  return {{.op = op,
           .implementation = "cudnn",
           .supports = supportsCudnnConv,
           .choose = chooseCudnnConv},
          nullptr,
          makeCudnnConv};
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
    pool("avg_pool", avgPoolSource),
    pool("avg_pool_grad", avgPoolGradSource),
    generated("batch_norm", batchNormSource, nullptr, chooseBatchNorm),
    generated("batch_norm_grad", batchNormGradSource, nullptr, chooseBatchNormGrad),
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
    cudnnConvolution("conv"),
    convolution("conv", convSource),
    cudnnConvolution("conv_grad_input"),
    convolution("conv_grad_input", convGradInputSource),
    cudnnConvolution("conv_grad_weight"),
    convolution("conv_grad_weight", convGradWeightSource),
    element("cos"),
    element("cosh"),
    generated("cross_entropy", crossEntropySource, supportsCrossEntropy, chooseCrossEntropy),
    generated(
        "cross_entropy_grad", crossEntropyGradSource, supportsCrossEntropy, chooseCrossEntropyGrad),
    generated("cumsum", cumsumSource),
    copied("detach"),
    element("div"),
    generated("dropout", dropoutSource),
    element("elu"),
    element("equal"),
    element("erf"),
    element("erfc"),
    element("exp"),
    element("expm1"),
    element("floor"),
    following("fused", fusedSource, supportsFused),
    generated("gather", gatherSource),
    element("gelu"),
    element("gelu_grad"),
    element("greater"),
    element("greater_equal"),
    copied("identity"),
    generated("iota", iotaSource),
    element("is_nan"),
    generated("layer_norm", layerNormSource),
    generated("layer_norm_grad", layerNormGradSource, nullptr, chooseLayerNormGrad),
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
    pool("max_pool", maxPoolSource),
    pool("max_pool_grad", maxPoolGradSource),
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
    following("reorder", reorderSource, nullptr, choosePlain),
    copied("reshape"),
    generated("reverse", reverseSource),
    generated("rms_norm", rmsNormSource),
    generated("rms_norm_grad", rmsNormGradSource, nullptr, chooseRmsNormGrad),
    element("round"),
    element("rsqrt"),
    generated("scaled_dot_product_attention", attentionSource, supportsAttention),
    generated("scaled_dot_product_attention_grad",
              attentionGradSource,
              supportsAttentionGrad,
              chooseAttentionGrad),
    generated("scatter_add", scatterAddSource, nullptr, chooseScatterAdd),
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

std::vector<device::KernelEntry> tableEntries(TensorCores cores) {
  std::vector<device::KernelEntry> all(kEntries.begin(), kEntries.end());
  if (cores == TensorCores::Half) {  // attention's products are those of newer GPUs
    std::erase_if(all, [](const device::KernelEntry& entry) {
      return entry.op.starts_with("scaled_dot_product_attention");
    });
  }
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
  return entry.isGenerated() ? makeGenerated(entry.source(op, choice), context)
                             : entry.make(op, choice, context);
}

}  // namespace sluice::devices::cuda
