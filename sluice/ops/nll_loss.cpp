// nll_loss: minus the log-probability of each label, from [N, C, d...] and labels [N, d...]. Terms
// with label ignoreIndex count for nothing; the mean is over the others. If there are none, it is
// not a number, as in ONNX and torch; the gradient is 0 then.
#include <cmath>
#include <limits>

#include "sluice/ops/cost.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/loss.h"
#include "sluice/ops/loss_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {{kReductionAttr, kIgnoreIndexAttr}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  nllDims(op, op.inputs[0].shape, op.inputs[1]);
  return {reducedType(op, {op.inputs[0].dtype, op.inputs[1].shape})};
}

std::vector<Value> grad(ir::GradContext& g) {
  const NllOptions options{.reduction = reductionOf(g.op),
                           .ignoreIndex = g.op.integer("ignoreIndex")};
  return {nllLossGrad(g.b, g.input(1), g.grad(), g.op.inputs[0].shape[1], options), Value()};
}

void reference(const ir::KernelArgs& args) {
  const NllDims d = nllDims(args.op, args.op.inputs[0].shape, args.op.inputs[1]);
  const Reduction reduction = reductionOf(args.op);
  const std::vector<std::int64_t> labels = readLabels(args, 1, d);
  const double factor = nllFactor(reduction, labels);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const T* in = args.in<T>(0).data();
    const auto out = args.out<T>(0);
    double sum = std::isinf(factor) ? std::numeric_limits<double>::quiet_NaN() : 0.0;
    for (std::size_t t = 0; t < labels.size(); ++t) {
      const double term =
          labels[t] < 0
              ? 0.0
              : factor *
                    static_cast<double>(widen(in[d.at(static_cast<std::int64_t>(t), labels[t])]));
      sum += term;
      if (reduction == Reduction::None) {
        out[t] = narrow<T>(term);
      }
    }
    if (reduction != Reduction::None) {
      out[0] = narrow<T>(sum);
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"NegativeLogLikelihoodLoss", 12},
                                  {"NegativeLogLikelihoodLoss", 13},
                                  {"Nll", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kNllLoss{.name = "nll_loss",
                                   .minInputs = 2,
                                   .maxInputs = 2,
                                   .attrs = kAttrs,
                                   .infer = infer,
                                   .grad = grad,
                                   .gradReads = {.inputs = 0b10},
                                   .cost = costPerInput<1>,
                                   .reference = reference,
                                   .traits = {.loss = true},
                                   .onnx = kOnnx};

Value nllLoss(GraphBuilder& b, Value logProbabilities, Value labels, NllOptions options) {
  return b.add(kNllLoss,
               {logProbabilities, labels},
               {{"reduction", name(options.reduction)}, {"ignoreIndex", options.ignoreIndex}});
}

}  // namespace sluice::ops
