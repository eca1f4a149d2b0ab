#include "sluice/devices/cpu/kernel_table.h"

#include <algorithm>
#include <array>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/moves.h"

namespace sluice::devices::cpu {
namespace {

constexpr KernelEntry elementwise(std::string_view op) {
  return {{.op = op,
           .implementation = "blocks",
           .supports = supportsElementwise,
           .choose = chooseElementwise},
          makeElementwise};
}

constexpr KernelEntry reduction(std::string_view op) {
  return {
      {.op = op, .implementation = "grains", .supports = supportsReduce, .choose = chooseReduce},
      makeReduce};
}

constexpr KernelEntry move(std::string_view op, decltype(KernelEntry::make) make) {
  return {{.op = op, .implementation = "runs", .choose = chooseMove}, make};
}

constexpr KernelEntry softmaxDoubles(std::string_view op) {
  return {{.op = op, .implementation = "lines", .supports = supportsSoftmaxDoubles},
          makeSoftmaxDoubles};
}

constexpr KernelEntry widened(std::string_view op) {
  return {
      {.op = op, .implementation = "widened", .supports = supportsWidened, .choose = chooseWidened},
      makeWidened};
}

constexpr std::array kEntries = {
    elementwise("abs"),
    elementwise("acos"),
    elementwise("acosh"),
    elementwise("add"),
    KernelEntry{{.op = "argmax", .implementation = "lines", .supports = supportsArgMax},
                makeArgMax},
    widened("argmax"),
    elementwise("asin"),
    elementwise("asinh"),
    KernelEntry{{.op = "assign", .implementation = "tiles"}, makeAssign},
    elementwise("atan"),
    elementwise("atan2"),
    elementwise("atanh"),
    KernelEntry{{.op = "avg_pool",
                 .implementation = "strips",
                 .supports = supportsPool,
                 .choose = choosePool},
                makeAvgPool},
    KernelEntry{{.op = "avg_pool_grad",
                 .implementation = "strips",
                 .supports = supportsPool,
                 .choose = choosePool},
                makeAvgPool},
    KernelEntry{{.op = "batch_norm",
                 .implementation = "channels",
                 .supports = supportsBatchNorm,
                 .choose = chooseBatchNorm},
                makeBatchNorm},
    widened("batch_norm"),
    KernelEntry{{.op = "batch_norm_grad",
                 .implementation = "channels",
                 .supports = supportsBatchNorm,
                 .choose = chooseBatchNorm},
                makeBatchNorm},
    widened("batch_norm_grad"),
    elementwise("bit_shift"),
    elementwise("bitwise_and"),
    elementwise("bitwise_not"),
    elementwise("bitwise_or"),
    elementwise("bitwise_xor"),
    KernelEntry{{.op = "branch",
                 .implementation = "bodies",
                 .supports = supportsBranch,
                 .choose = chooseBranch},
                makeBranch},
    elementwise("broadcast_to"),
    elementwise("cast"),
    elementwise("ceil"),
    elementwise("clamp"),
    move("concat", makeConcat),
    KernelEntry{
        {.op = "conv", .implementation = "onednn", .supports = supportsConv, .choose = chooseConv},
        makeConv},
    KernelEntry{{.op = "conv", .implementation = "integers", .supports = supportsIntegerProduct},
                makeIntegerConv},
    KernelEntry{{.op = "conv_grad_input",
                 .implementation = "onednn",
                 .supports = supportsConv,
                 .choose = chooseConv},
                makeConv},
    KernelEntry{{.op = "conv_grad_weight",
                 .implementation = "onednn",
                 .supports = supportsConv,
                 .choose = chooseConvGradWeight},
                makeConvGradWeight},
    elementwise("cos"),
    elementwise("cosh"),
    KernelEntry{{.op = "cross_entropy",
                 .implementation = "rows",
                 .supports = supportsCrossEntropy,
                 .choose = chooseCrossEntropy},
                makeCrossEntropy},
    widened("cross_entropy"),
    KernelEntry{
        {.op = "cross_entropy_grad", .implementation = "rows", .supports = supportsCrossEntropy},
        makeCrossEntropyGrad},
    widened("cross_entropy_grad"),
    KernelEntry{{.op = "cumsum", .implementation = "lines"}, makeCumSum},
    elementwise("div"),
    KernelEntry{{.op = "dropout", .implementation = "tiles"}, makeDropout},
    elementwise("elu"),
    elementwise("equal"),
    elementwise("erf"),
    elementwise("erfc"),
    elementwise("exp"),
    elementwise("expm1"),
    elementwise("floor"),
    elementwise("fused"),
    KernelEntry{{.op = "fused",
                 .implementation = "anchored",
                 .supports = supportsFusedAnchor,
                 .choose = chooseFusedAnchor},
                makeFusedAnchor},
    KernelEntry{{.op = "gather", .implementation = "rows"}, makeGather},
    elementwise("gelu"),
    elementwise("gelu_grad"),
    elementwise("greater"),
    elementwise("greater_equal"),
    KernelEntry{{.op = "iota", .implementation = "tiles"}, makeIota},
    elementwise("is_nan"),
    KernelEntry{{.op = "layer_norm", .implementation = "rows", .supports = supportsLayerNorm},
                makeLayerNorm},
    widened("layer_norm"),
    KernelEntry{{.op = "layer_norm_grad",
                 .implementation = "rows",
                 .supports = supportsLayerNorm,
                 .choose = chooseLayerNormGrad},
                makeLayerNormGrad},
    widened("layer_norm_grad"),
    elementwise("leaky_relu"),
    elementwise("less"),
    elementwise("less_equal"),
    elementwise("log"),
    elementwise("log1p"),
    KernelEntry{{.op = "log_softmax", .implementation = "rows", .supports = supportsSoftmax},
                makeSoftmax},
    softmaxDoubles("log_softmax"),
    widened("log_softmax"),
    KernelEntry{{.op = "log_softmax_grad", .implementation = "rows", .supports = supportsSoftmax},
                makeSoftmax},
    softmaxDoubles("log_softmax_grad"),
    widened("log_softmax_grad"),
    elementwise("logical_and"),
    elementwise("logical_not"),
    elementwise("logical_or"),
    elementwise("logical_xor"),
    KernelEntry{
        {.op = "loop", .implementation = "bodies", .supports = supportsLoop, .choose = chooseLoop},
        makeLoop},
    KernelEntry{{.op = "matmul",
                 .implementation = "onednn",
                 .supports = supportsMatMul,
                 .choose = chooseMatMul},
                makeMatMul},
    KernelEntry{{.op = "matmul", .implementation = "integers", .supports = supportsIntegerProduct},
                makeIntegerMatMul},
    KernelEntry{{.op = "matmul",
                 .implementation = "doubles",
                 .supports = supportsMatMulDoubles,
                 .choose = chooseMatMulDoubles},
                makeMatMulDoubles},
    KernelEntry{{.op = "max_pool",
                 .implementation = "strips",
                 .supports = supportsPool,
                 .choose = choosePool},
                makeMaxPool},
    KernelEntry{{.op = "max_pool_grad",
                 .implementation = "strips",
                 .supports = supportsPool,
                 .choose = choosePool},
                makeMaxPoolGrad},
    elementwise("maximum"),
    elementwise("minimum"),
    elementwise("mod"),
    elementwise("mul"),
    elementwise("neg"),
    KernelEntry{{.op = "nll_loss", .implementation = "grains", .choose = chooseNllLoss},
                makeNllLoss},
    KernelEntry{{.op = "nll_loss_grad", .implementation = "grains"}, makeNllLossGrad},
    elementwise("not_equal"),
    KernelEntry{{.op = "one_hot", .implementation = "tiles"}, makeOneHot},
    move("pad", makePad),
    elementwise("pow"),
    KernelEntry{{.op = "random_normal", .implementation = "tiles"}, makeRandomNormal},
    KernelEntry{{.op = "random_uniform", .implementation = "tiles"}, makeRandomUniform},
    elementwise("reciprocal"),
    reduction("reduce_max"),
    widened("reduce_max"),
    reduction("reduce_mean"),
    widened("reduce_mean"),
    reduction("reduce_min"),
    widened("reduce_min"),
    KernelEntry{{.op = "reduce_prod",
                 .implementation = "grains",
                 .supports = supportsReduce,
                 .choose = chooseReduceProd},
                makeReduceProd},
    widened("reduce_prod"),
    reduction("reduce_sum"),
    widened("reduce_sum"),
    elementwise("relu"),
    elementwise("relu_grad"),
    KernelEntry{{.op = "reorder", .implementation = "strided"}, makeReorder},
    move("reverse", makeReverse),
    KernelEntry{{.op = "rms_norm", .implementation = "rows", .supports = supportsLayerNorm},
                makeLayerNorm},
    widened("rms_norm"),
    KernelEntry{{.op = "rms_norm_grad",
                 .implementation = "rows",
                 .supports = supportsLayerNorm,
                 .choose = chooseLayerNormGrad},
                makeLayerNormGrad},
    widened("rms_norm_grad"),
    elementwise("round"),
    elementwise("rsqrt"),
    KernelEntry{{.op = "scaled_dot_product_attention",
                 .implementation = "rows",
                 .supports = supportsAttention},
                makeAttention},
    widened("scaled_dot_product_attention"),
    KernelEntry{{.op = "scaled_dot_product_attention_grad",
                 .implementation = "keys",
                 .supports = supportsAttentionGrad,
                 .choose = chooseAttentionGrad},
                makeAttentionGrad},
    widened("scaled_dot_product_attention_grad"),
    KernelEntry{{.op = "scatter_add", .implementation = "rows", .supports = supportsScatterAdd},
                makeScatterAdd},
    widened("scatter_add"),
    elementwise("sigmoid"),
    elementwise("sign"),
    elementwise("silu"),
    elementwise("sin"),
    elementwise("sinh"),
    move("slice", makeSlice),
    move("slice_scatter", makeSliceScatter),
    KernelEntry{{.op = "softmax", .implementation = "rows", .supports = supportsSoftmax},
                makeSoftmax},
    softmaxDoubles("softmax"),
    widened("softmax"),
    KernelEntry{{.op = "softmax_grad", .implementation = "rows", .supports = supportsSoftmax},
                makeSoftmax},
    softmaxDoubles("softmax_grad"),
    widened("softmax_grad"),
    elementwise("softplus"),
    move("split", makeSplit),
    elementwise("sqrt"),
    elementwise("square"),
    KernelEntry{{.op = "stochastic_cast", .implementation = "tiles"}, makeStochasticCast},
    elementwise("sub"),
    elementwise("tan"),
    elementwise("tanh"),
    move("tile", makeTile),
    KernelEntry{{.op = "transpose", .implementation = "blocks"}, makeTranspose},
    KernelEntry{{.op = "trilu", .implementation = "runs"}, makeTrilu},
    elementwise("where"),
};

static_assert(std::ranges::is_sorted(kEntries, {}, &KernelEntry::op));

}  // namespace

constinit const KernelEntry kReferenceEntry{
    {.op = device::kAnyOp, .implementation = "reference", .supports = supportsReference},
    makeReference};

std::span<const KernelEntry> kernelEntries() {
  return kEntries;
}

std::vector<device::KernelEntry> tableEntries() {
  std::vector<device::KernelEntry> all(kEntries.begin(), kEntries.end());
  all.push_back(kReferenceEntry);
  return all;
}

std::unique_ptr<Kernel> makeKernel(const ir::OpView& op, const device::Choice& choice) {
  if (choice.implementation == kReferenceEntry.implementation && supportsReference(op)) {
    return makeReference(op, choice);
  }
  const auto* const first = std::ranges::lower_bound(kEntries, op.def.name, {}, &KernelEntry::op);
  for (const auto* entry = first; entry != kEntries.end() && entry->op == op.def.name; ++entry) {
    if (entry->implementation == choice.implementation) {
      return entry->make(op, choice);
    }
  }
  raise<Unsupported>("the CPU has no kernel '{}' for {}", choice.implementation, op.def.name);
}

}  // namespace sluice::devices::cpu
