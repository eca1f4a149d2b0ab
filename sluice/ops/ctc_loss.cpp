// ctc_loss: minus the log-probability of all alignments of each target, per batch item, from
// log-probabilities [steps, batch, classes], targets and both lengths. An impossible target costs
// infinity or, with zeroInfinity, nothing.
#include <cmath>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/ctc.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  return {{op.inputs[0].dtype, Shape{ctcDims(op).batch}}};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {g.b.add(kCtcLossGrad,
                  {g.input(0), g.input(1), g.input(2), g.input(3), g.grad()},
                  {{"blank", g.op.integer("blank")},
                   {"zeroInfinity", g.op.attrs.flag("zeroInfinity")}}),
          Value(),
          Value(),
          Value()};
}

void reference(const ir::KernelArgs& args) {
  const CtcDims d = ctcDims(args.op);
  const bool zero = args.op.attrs.flag("zeroInfinity");
  const std::vector<double> logs = loadDoubles(args, 0);
  std::vector<double> losses;
  CtcPaths paths(d, args.op.integer("blank"), logs);
  for (const CtcItem& item : readCtcItems(args, d)) {
    const double loss =
        -paths.sum(static_cast<std::int64_t>(losses.size()), item.steps, item.labels);
    losses.push_back(std::isinf(loss) && zero ? 0.0 : loss);
  }
  storeDoubles(args, 0, losses);
}

constexpr ir::OnnxName kOnnx[] = {{"Ctc", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kCtcLoss{.name = "ctc_loss",
                                   .minInputs = 4,
                                   .maxInputs = 4,
                                   .attrs = kCtcAttrs,
                                   .infer = infer,
                                   .grad = grad,
                                   .gradReads = {.inputs = 0b1111},
                                   .cost = costPerInput<8>,
                                   .reference = reference,
                                   .traits = {.loss = true},
                                   .onnx = kOnnx};

Value ctcLoss(GraphBuilder& b,
              Value logProbabilities,
              const CtcTargets& targets,
              const CtcOptions& options) {
  const Value losses =
      b.add(kCtcLoss,
            {logProbabilities, targets.targets, targets.inputLengths, targets.targetLengths},
            {{"blank", options.blank}, {"zeroInfinity", options.zeroInfinity}});
  if (options.reduction != Reduction::Mean) {
    return options.reduction == Reduction::Sum ? reduceSum(b, losses, {}) : losses;
  }
  const DType dtype = b.dtype(losses);
  const Value lengths = maximum(b, cast(b, targets.targetLengths, dtype), b.scalar(dtype, 1));
  return reduceMean(b, div(b, losses, lengths), {});
}

}  // namespace sluice::ops
