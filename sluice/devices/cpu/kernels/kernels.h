// The factories of all CPU kernels, one or two per file of this folder. kernel_table.cpp lists
// them.
#pragma once

#include <memory>

#include "sluice/devices/cpu/kernel.h"

namespace sluice::devices::cpu {

// argmax.cpp
bool supportsArgMax(const ir::OpView& op);
std::unique_ptr<Kernel> makeArgMax(const ir::OpView& op, const device::Choice& choice);

// assign.cpp: modes sum and mean
std::unique_ptr<Kernel> makeAssign(const ir::OpView& op, const device::Choice& choice);

// attention.cpp and attention_grad.cpp
bool supportsAttention(const ir::OpView& op);
std::unique_ptr<Kernel> makeAttention(const ir::OpView& op, const device::Choice& choice);
bool supportsAttentionGrad(const ir::OpView& op);
device::Choice chooseAttentionGrad(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeAttentionGrad(const ir::OpView& op, const device::Choice& choice);

// batch_norm.cpp: batch_norm and batch_norm_grad
bool supportsBatchNorm(const ir::OpView& op);
device::Choice chooseBatchNorm(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeBatchNorm(const ir::OpView& op, const device::Choice& choice);

// control.cpp: loop and branch
bool supportsLoop(const ir::OpView& op);
device::Choice chooseLoop(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeLoop(const ir::OpView& op, const device::Choice& choice);
bool supportsBranch(const ir::OpView& op);
device::Choice chooseBranch(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeBranch(const ir::OpView& op, const device::Choice& choice);

// conv.cpp: conv and conv_grad_input
bool supportsConv(const ir::OpView& op);
device::Choice chooseConv(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeConv(const ir::OpView& op, const device::Choice& choice);

// conv_grad_weight.cpp
device::Choice chooseConvGradWeight(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeConvGradWeight(const ir::OpView& op, const device::Choice& choice);

// cross_entropy.cpp: cross_entropy and cross_entropy_grad
bool supportsCrossEntropy(const ir::OpView& op);
device::Choice chooseCrossEntropy(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeCrossEntropy(const ir::OpView& op, const device::Choice& choice);
std::unique_ptr<Kernel> makeCrossEntropyGrad(const ir::OpView& op, const device::Choice& choice);

// cumsum.cpp
std::unique_ptr<Kernel> makeCumSum(const ir::OpView& op, const device::Choice& choice);

// elementwise.cpp: every element-wise op, and fused
bool supportsElementwise(const ir::OpView& op);
device::Choice chooseElementwise(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeElementwise(const ir::OpView& op, const device::Choice& choice);

// fused_anchor.cpp: fused with an anchor
bool supportsFusedAnchor(const ir::OpView& op);
device::Choice chooseFusedAnchor(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeFusedAnchor(const ir::OpView& op, const device::Choice& choice);

// gather.cpp
std::unique_ptr<Kernel> makeGather(const ir::OpView& op, const device::Choice& choice);

// integer_product.cpp: matmul and conv of i32 and u32
bool supportsIntegerProduct(const ir::OpView& op);
std::unique_ptr<Kernel> makeIntegerMatMul(const ir::OpView& op, const device::Choice& choice);
std::unique_ptr<Kernel> makeIntegerConv(const ir::OpView& op, const device::Choice& choice);
// iota.cpp
std::unique_ptr<Kernel> makeIota(const ir::OpView& op, const device::Choice& choice);

// layer_norm.cpp: layer_norm, rms_norm and their gradients
bool supportsLayerNorm(const ir::OpView& op);
std::unique_ptr<Kernel> makeLayerNorm(const ir::OpView& op, const device::Choice& choice);
device::Choice chooseLayerNormGrad(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeLayerNormGrad(const ir::OpView& op, const device::Choice& choice);

// matmul.cpp
bool supportsMatMul(const ir::OpView& op);
device::Choice chooseMatMul(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeMatMul(const ir::OpView& op, const device::Choice& choice);

// matmul_doubles.cpp
bool supportsMatMulDoubles(const ir::OpView& op);
device::Choice chooseMatMulDoubles(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeMatMulDoubles(const ir::OpView& op, const device::Choice& choice);

// moves.cpp: ops that only copy
std::unique_ptr<Kernel> makeConcat(const ir::OpView& op, const device::Choice& choice);
std::unique_ptr<Kernel> makeReverse(const ir::OpView& op, const device::Choice& choice);
std::unique_ptr<Kernel> makeSlice(const ir::OpView& op, const device::Choice& choice);
std::unique_ptr<Kernel> makeSliceScatter(const ir::OpView& op, const device::Choice& choice);
std::unique_ptr<Kernel> makeSplit(const ir::OpView& op, const device::Choice& choice);
std::unique_ptr<Kernel> makeTile(const ir::OpView& op, const device::Choice& choice);

// nll_loss.cpp: nll_loss and its gradient
device::Choice chooseNllLoss(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeNllLoss(const ir::OpView& op, const device::Choice& choice);
std::unique_ptr<Kernel> makeNllLossGrad(const ir::OpView& op, const device::Choice& choice);

// one_hot.cpp
std::unique_ptr<Kernel> makeOneHot(const ir::OpView& op, const device::Choice& choice);

// pad.cpp
std::unique_ptr<Kernel> makePad(const ir::OpView& op, const device::Choice& choice);

// pool.cpp: max_pool, avg_pool and their gradients
bool supportsPool(const ir::OpView& op);
device::Choice choosePool(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeAvgPool(const ir::OpView& op, const device::Choice& choice);
std::unique_ptr<Kernel> makeMaxPool(const ir::OpView& op, const device::Choice& choice);
std::unique_ptr<Kernel> makeMaxPoolGrad(const ir::OpView& op, const device::Choice& choice);

// random.cpp
std::unique_ptr<Kernel> makeDropout(const ir::OpView& op, const device::Choice& choice);
std::unique_ptr<Kernel> makeRandomNormal(const ir::OpView& op, const device::Choice& choice);
std::unique_ptr<Kernel> makeRandomUniform(const ir::OpView& op, const device::Choice& choice);
std::unique_ptr<Kernel> makeStochasticCast(const ir::OpView& op, const device::Choice& choice);

// reduce.cpp: reduce_sum, reduce_mean, reduce_max, reduce_min
bool supportsReduce(const ir::OpView& op);
device::Choice chooseReduce(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeReduce(const ir::OpView& op, const device::Choice& choice);

// reduce_prod.cpp: for the types of reduce.cpp
device::Choice chooseReduceProd(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeReduceProd(const ir::OpView& op, const device::Choice& choice);

// reference.cpp: every op that has one
bool supportsReference(const ir::OpView& op);
std::unique_ptr<Kernel> makeReference(const ir::OpView& op, const device::Choice& choice);

// reorder.cpp
std::unique_ptr<Kernel> makeReorder(const ir::OpView& op, const device::Choice& choice);

// scatter_add.cpp
bool supportsScatterAdd(const ir::OpView& op);
std::unique_ptr<Kernel> makeScatterAdd(const ir::OpView& op, const device::Choice& choice);

// softmax.cpp: softmax, log_softmax and their gradients
bool supportsSoftmax(const ir::OpView& op);
std::unique_ptr<Kernel> makeSoftmax(const ir::OpView& op, const device::Choice& choice);

// softmax_doubles.cpp: the same ops
bool supportsSoftmaxDoubles(const ir::OpView& op);
std::unique_ptr<Kernel> makeSoftmaxDoubles(const ir::OpView& op, const device::Choice& choice);

// transpose.cpp
std::unique_ptr<Kernel> makeTranspose(const ir::OpView& op, const device::Choice& choice);

// trilu.cpp
std::unique_ptr<Kernel> makeTrilu(const ir::OpView& op, const device::Choice& choice);

// widened.cpp: float16 and bfloat16 by way of an op's float32 kernel
bool supportsWidened(const ir::OpView& op);
device::Choice chooseWidened(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeWidened(const ir::OpView& op, const device::Choice& choice);

}  // namespace sluice::devices::cpu
