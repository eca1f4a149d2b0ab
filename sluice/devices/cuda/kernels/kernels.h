// The kernels of the device's table: what each supports, the scratch memory it needs, and its
// source or its factory. Private to the device.
#pragma once

#include <memory>

#include "sluice/devices/cuda/kernel.h"

namespace sluice::devices::cuda {

// elementwise.cpp
bool supportsElementwise(const ir::OpView& op);
/// Plain or channels last, whichever the operands have.
device::Choice chooseFollowing(const ir::OpView& op, const device::Tuning& tuning);
Source elementwiseSource(const ir::OpView& op, const device::Choice& choice);
/// Copies the operand from one layout to another.
Source reorderSource(const ir::OpView& op, const device::Choice& choice);
bool supportsFused(const ir::OpView& op);
Source fusedSource(const ir::OpView& op, const device::Choice& choice);

// attention.cpp
bool supportsAttention(const ir::OpView& op);
Source attentionSource(const ir::OpView& op);
bool supportsAttentionGrad(const ir::OpView& op);
device::Choice chooseAttentionGrad(const ir::OpView& op, const device::Tuning& tuning);
Source attentionGradSource(const ir::OpView& op);

// channels.cpp
device::Choice chooseBatchNorm(const ir::OpView& op, const device::Tuning& tuning);
Source batchNormSource(const ir::OpView& op);
device::Choice chooseBatchNormGrad(const ir::OpView& op, const device::Tuning& tuning);
Source batchNormGradSource(const ir::OpView& op);

// conv.cpp
bool supportsCudnnConv(const ir::OpView& op);
device::Choice chooseCudnnConv(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeCudnnConv(const ir::OpView& op,
                                      const device::Choice& choice,
                                      const MakeContext& context);

// cross_entropy.cpp
device::Choice chooseCrossEntropy(const ir::OpView& op, const device::Tuning& tuning);
Source crossEntropySource(const ir::OpView& op);
device::Choice chooseCrossEntropyGrad(const ir::OpView& op, const device::Tuning& tuning);
Source crossEntropyGradSource(const ir::OpView& op);

// moves.cpp
Source concatSource(const ir::OpView& op);
Source padSource(const ir::OpView& op);
Source reverseSource(const ir::OpView& op);
Source sliceSource(const ir::OpView& op);
Source sliceScatterSource(const ir::OpView& op);
Source splitSource(const ir::OpView& op);
Source tileSource(const ir::OpView& op);
Source transposeSource(const ir::OpView& op);
Source triluSource(const ir::OpView& op);
/// Copies the bytes of operand 0: views where memory is not shared, and assignments.
std::unique_ptr<Kernel> makeCopy(const ir::OpView& op,
                                 const device::Choice& choice,
                                 const MakeContext& context);

// reduce.cpp
device::Choice chooseReduce(const ir::OpView& op, const device::Tuning& tuning);
Source reduceSource(const ir::OpView& op);
Source argmaxSource(const ir::OpView& op);
Source cumsumSource(const ir::OpView& op);

// rows.cpp
Source softmaxSource(const ir::OpView& op);
Source softmaxGradSource(const ir::OpView& op);
Source layerNormSource(const ir::OpView& op);
device::Choice chooseLayerNormGrad(const ir::OpView& op, const device::Tuning& tuning);
Source layerNormGradSource(const ir::OpView& op);
Source rmsNormSource(const ir::OpView& op);
device::Choice chooseRmsNormGrad(const ir::OpView& op, const device::Tuning& tuning);
Source rmsNormGradSource(const ir::OpView& op);

// indexing.cpp
Source gatherSource(const ir::OpView& op);
Source iotaSource(const ir::OpView& op);
Source nllLossSource(const ir::OpView& op);
device::Choice chooseNllLossGrad(const ir::OpView& op, const device::Tuning& tuning);
Source nllLossGradSource(const ir::OpView& op);
Source oneHotSource(const ir::OpView& op);
Source scatterAddSource(const ir::OpView& op);

// random.cpp
Source assignSource(const ir::OpView& op);
Source dropoutSource(const ir::OpView& op);
Source randomNormalSource(const ir::OpView& op);
Source randomUniformSource(const ir::OpView& op);

// window.cpp
bool supportsWindow(const ir::OpView& op);
Source convSource(const ir::OpView& op, const device::Choice& choice);
Source convGradInputSource(const ir::OpView& op, const device::Choice& choice);
Source convGradWeightSource(const ir::OpView& op, const device::Choice& choice);
Source avgPoolSource(const ir::OpView& op, const device::Choice& choice);
Source avgPoolGradSource(const ir::OpView& op, const device::Choice& choice);
Source maxPoolSource(const ir::OpView& op, const device::Choice& choice);
Source maxPoolGradSource(const ir::OpView& op, const device::Choice& choice);

// matmul.cpp
bool supportsMatMul(const ir::OpView& op);
device::Choice chooseMatMul(const ir::OpView& op, const device::Tuning& tuning);
std::unique_ptr<Kernel> makeMatMul(const ir::OpView& op,
                                   const device::Choice& choice,
                                   const MakeContext& context);

}  // namespace sluice::devices::cuda
