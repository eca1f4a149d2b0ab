// AiGraphcore: the ops of the domain ai.graphcore.
#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/op_attrs.h"
#include "sluice/onnx/node.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/loss.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/vendor.h"

namespace sluice {
namespace {

std::vector<ir::NamedAttr> blockAttrs(const DynamicBlock& block) {
  return {{"axes", block.axes}, {"sizes", block.sizes}};
}

/// The list of one convolution behind those before it; one that is left out has `count` defaults.
void append(std::vector<std::int64_t>& all,
            const std::vector<std::int64_t>& own,
            std::size_t count,
            std::int64_t otherwise) {
  if (own.empty()) {
    all.insert(all.end(), count, otherwise);
    return;
  }
  if (own.size() != count) {
    raise<InvalidArgument>("MultiConv: expected {} numbers, got {}", count, own.size());
  }
  all.insert(all.end(), own.begin(), own.end());
}

}  // namespace

AiGraphcore::Ids AiGraphcore::node(std::string_view op,
                                   const Ids& inputs,
                                   std::vector<ir::NamedAttr> attrs,
                                   std::size_t outputs) {
  return b_.op({.op = op,
                .inputs = {inputs.begin(), inputs.end()},
                .attrs = std::move(attrs),
                .outputs = outputs,
                .domain = ops::kVendorDomain});
}

TensorId AiGraphcore::one(std::string_view op,
                          const std::vector<OpOperand>& inputs,
                          std::vector<ir::NamedAttr> attrs) {
  return b_.op(
      {.op = op, .inputs = inputs, .attrs = std::move(attrs), .domain = ops::kVendorDomain})[0];
}

TensorId AiGraphcore::castthenpow2scale(const TensorId& x,
                                        const TensorId& log2Scale,
                                        std::string_view to,
                                        std::string_view from) {
  return one("CastThenPow2Scale", {x, log2Scale}, {{"to", to}, {"from", from}});
}

TensorId AiGraphcore::detach(const TensorId& x) {
  return b_.make("Detach", [&] { return ops::detach(b_.b_, b_.value(x)); });
}

TensorId AiGraphcore::incrementmod(const TensorId& x, double increment, double modulus) {
  return one("IncrementMod", {x}, {{"increment", increment}, {"modulus", modulus}});
}

TensorId AiGraphcore::nop(const TensorId& x) {
  return b_.make("Nop", [&] { return ops::nop(b_.b_, b_.value(x)); });
}

TensorId AiGraphcore::pow2scalethencast(const TensorId& x,
                                        const TensorId& log2Scale,
                                        std::string_view to) {
  return one("Pow2ScaleThenCast", {x, log2Scale}, {{"to", to}});
}

TensorId AiGraphcore::scale(const TensorId& x, double factor) {
  return one("Scale", {x}, {{"scale", factor}});
}

TensorId AiGraphcore::scaledadd(const TensorId& x,
                                const TensorId& y,
                                double scaleX,
                                double scaleY) {
  return one("ScaledAdd", {x, y}, {{"scale0", scaleX}, {"scale1", scaleY}});
}

AiGraphcore::Ids AiGraphcore::batchnormalization(const TensorId& x,
                                                 const BatchNormTensors& tensors,
                                                 const VendorBatchNormOptions& options) {
  return node("BatchNormalization",
              {x, tensors.scale, tensors.bias, tensors.mean, tensors.variance},
              {{"epsilon", options.epsilon}, {"momentum", options.momentum}},
              options.training ? 5 : 1);
}

AiGraphcore::Ids AiGraphcore::ctcbeamsearchdecoder(const TensorId& logProbabilities,
                                                   const TensorId& lengths,
                                                   const ops::CtcDecoderOptions& options) {
  return node(
      "CtcBeamSearchDecoder",
      {logProbabilities, lengths},
      {{"blank", options.blank}, {"beamWidth", options.beamWidth}, {"topPaths", options.topPaths}},
      3);
}

TensorId AiGraphcore::ctcloss(const TensorId& logProbabilities,
                              const CtcTensors& tensors,
                              const ops::CtcOptions& options) {
  return one("Ctc",
             {logProbabilities, tensors.targets, tensors.inputLengths, tensors.targetLengths},
             {{"reduction", ops::name(options.reduction)},
              {"blank", options.blank},
              {"zeroInfinity", options.zeroInfinity}});
}

TensorId AiGraphcore::groupnormalization(const TensorId& x,
                                         const TensorId& scale,
                                         const TensorId& bias,
                                         std::int64_t groups,
                                         double epsilon) {
  return b_.make("GroupNormalization", [&] {
    return ops::groupNorm(b_.b_, b_.value(x), b_.value(scale), b_.value(bias), groups, epsilon);
  });
}

TensorId AiGraphcore::identityloss(const TensorId& x, ops::Reduction reduction) {
  return b_.make("IdentityLoss", [&] { return ops::identityLoss(b_.b_, b_.value(x), reduction); });
}

TensorId AiGraphcore::l1loss(const TensorId& x, double lambda, ops::Reduction reduction) {
  return b_.make("L1", [&] {
    const ir::Value magnitude = ops::abs(b_.b_, b_.value(x));
    const ir::Value loss = ops::identityLoss(b_.b_, magnitude, reduction);
    return ops::mul(b_.b_, loss, b_.b_.scalar(b_.b_.dtype(loss), lambda));
  });
}

AiGraphcore::Ids AiGraphcore::multiconv(const std::vector<MultiConvPart>& parts) {
  Ids inputs;
  Ints strides;
  Ints pads;
  Ints dilations;
  for (const MultiConvPart& part : parts) {
    inputs.push_back(part.x);
    inputs.push_back(part.w);
    const auto rank =
        static_cast<std::size_t>(std::max<std::int64_t>(b_.getTensorShape(part.x).rank() - 2, 0));
    append(strides, part.options.strides, rank, 1);
    append(pads, part.options.pads, 2 * rank, 0);
    append(dilations, part.options.dilations, rank, 1);
  }
  return node("MultiConv",
              inputs,
              {{"strides", strides}, {"pads", pads}, {"dilations", dilations}},
              parts.size());
}

TensorId AiGraphcore::shapeddropout(const TensorId& x, const Ints& shape, double ratio) {
  return b_.make("ShapedDropout",
                 [&] { return ops::shapedDropout(b_.b_, b_.value(x), Shape(shape), ratio); });
}

AiGraphcore::Ids AiGraphcore::splinebasis(const TensorId& pseudo,
                                          const TensorId& kernelSize,
                                          const TensorId& isOpen,
                                          std::int64_t degree) {
  return node("SplineBasis", {pseudo, kernelSize, isOpen}, {{"degree", degree}}, 2);
}

TensorId AiGraphcore::splineweighting(const TensorId& x,
                                      const TensorId& weight,
                                      const TensorId& basis,
                                      const TensorId& indices) {
  return one("SplineWeighting", {x, weight, basis, indices});
}

TensorId AiGraphcore::nllloss(const TensorId& probabilities,
                              const TensorId& labels,
                              const NllLossOptions& options) {
  return b_.make("Nll", [&] {
    const ir::Value given = b_.value(probabilities);
    const ir::Value logs = options.inputIsLogProbability ? given : ops::log(b_.b_, given);
    return ops::nllLoss(b_.b_, logs, b_.value(labels), {options.reduction, options.ignoreIndex});
  });
}

TensorId AiGraphcore::bucketize(const TensorId& x, const TensorId& boundaries, bool right) {
  return one("Bucketize", {x, boundaries}, {{"right", right}});
}

TensorId AiGraphcore::dynamicadd(const TensorId& x,
                                 const TensorId& offset,
                                 const TensorId& values,
                                 const DynamicBlock& block) {
  return one("DynamicAdd", {x, offset, values}, blockAttrs(block));
}

TensorId AiGraphcore::dynamicslice(const TensorId& x,
                                   const TensorId& offset,
                                   const DynamicBlock& block) {
  return one("DynamicSlice", {x, offset}, blockAttrs(block));
}

TensorId AiGraphcore::dynamicupdate(const TensorId& x,
                                    const TensorId& offset,
                                    const TensorId& values,
                                    const DynamicBlock& block) {
  return one("DynamicUpdate", {x, offset, values}, blockAttrs(block));
}

TensorId AiGraphcore::dynamiczero(const TensorId& x,
                                  const TensorId& offset,
                                  const DynamicBlock& block) {
  return one("DynamicZero", {x, offset}, blockAttrs(block));
}

TensorId AiGraphcore::histogram(const TensorId& x,
                                const std::vector<double>& levels,
                                bool absoluteOfInput) {
  return one("Histogram", {x}, {{"levels", levels}, {"absoluteOfInput", absoluteOfInput}});
}

TensorId AiGraphcore::init(const TensorType& type) {
  return one(
      "Init", {}, {{"shape", type.shape.dims()}, {"tensor_type", onnx::onnxTypeOf(type.dtype)}});
}

TensorId AiGraphcore::reshape(const TensorId& x, const Ints& shape) {
  return one("Reshape", {x}, {{"shape", shape}});
}

TensorId AiGraphcore::reverse(const TensorId& x, const Ints& dimensions) {
  return one("Reverse", {x}, {{"dimensions", dimensions}});
}

TensorId AiGraphcore::scatterreduce(const TensorId& x,
                                    const TensorId& indices,
                                    const ScatterReduceOptions& options) {
  return one(
      "ScatterReduce",
      {x, indices, options.initialValues},
      {{"axis", options.axis}, {"axis_size", options.axisSize}, {"reduction", options.reduction}});
}

TensorId AiGraphcore::sequenceslice(const TensorId& source,
                                    const TensorId& destination,
                                    const SequenceSliceTensors& tensors,
                                    bool zeroUnused) {
  return one(
      "SequenceSlice",
      {source, destination, tensors.counts, tensors.sourceOffsets, tensors.destinationOffsets},
      {{"zeroUnused", zeroUnused}});
}

AiGraphcore::Ids AiGraphcore::sort(const TensorId& x, std::int64_t axis, bool descending) {
  return node("Sort", {x}, {{"axis", axis}, {"descending", descending}}, 2);
}

TensorId AiGraphcore::subsample(const TensorId& x, const Ints& strides) {
  return one("Subsample", {x}, {{"strides", strides}});
}

TensorId AiGraphcore::zeros(const TensorType& type) {
  return one("Zeros", {}, withType(type.dtype, {{"shape", type.shape.dims()}}));
}

}  // namespace sluice
