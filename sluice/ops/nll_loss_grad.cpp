// nll_loss_grad: the gradient of the log-probabilities from (labels, dy): dy times -1 (divided as
// the reduction says) at each label, 0 elsewhere. Linear in dy; its own gradient is nll_loss, and 0
// where that is a mean of no terms.
#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/loss.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 3> kAttrs = {
    {kReductionAttr,
     kIgnoreIndexAttr,
     {.name = "classes", .kind = ir::AttrKind::Int, .required = true}}};

Shape probabilityShape(const ir::OpView& op) {
  std::vector<std::int64_t> dims = op.inputs[0].shape.dims();
  if (dims.empty() || op.integer("classes") < 0) {
    raise<InvalidArgument>(
        "nll_loss_grad: expected labels [batch, ...] and classes >= 0, got {}, {}",
        op.inputs[0].str(),
        op.integer("classes"));
  }
  dims.insert(dims.begin() + 1, op.integer("classes"));
  return Shape(std::move(dims));
}

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 1, Accepts::Floating);
  Shape shape = probabilityShape(op);
  nllDims(op, shape, op.inputs[0]);
  const TensorType wanted = reducedType(op, {op.inputs[1].dtype, op.inputs[0].shape});
  if (op.inputs[1] != wanted) {
    raise<InvalidArgument>(
        "nll_loss_grad: the output gradient must be {}, got {}", wanted.str(), op.inputs[1].str());
  }
  return {{op.inputs[1].dtype, std::move(shape)}};
}

std::vector<Value> grad(ir::GradContext& g) {
  const NllOptions options{.reduction = reductionOf(g.op),
                           .ignoreIndex = g.op.integer("ignoreIndex")};
  const Value slope = nllLoss(g.b, g.grad(), g.input(0), options);
  if (options.reduction != Reduction::Mean) {
    return {Value(), slope};
  }
  const TensorType& labels = g.op.inputs[0];
  const Value ignored = g.b.scalar(labels.dtype, static_cast<double>(options.ignoreIndex));
  const Value counts = cast(g.b, notEqual(g.b, g.input(0), ignored), DType::I32);
  const Value some = greater(g.b, reduceSum(g.b, counts, {}), g.b.scalar(DType::I32, 0.0));
  return {Value(), where(g.b, some, slope, g.b.scalar(g.op.inputs[1].dtype, 0.0))};
}

void reference(const ir::KernelArgs& args) {
  const NllDims d = nllDims(args.op, args.op.outputs[0].shape, args.op.inputs[0]);
  const Reduction reduction = reductionOf(args.op);
  const std::vector<std::int64_t> labels = readLabels(args, 0, d);
  const double factor = nllFactor(reduction, labels);
  dispatch(args.op.inputs[1].dtype, [&]<class T>(T) {
    const auto dy = args.in<T>(1);
    const auto out = args.out<T>(0);
    std::ranges::fill(out, T{});
    for (std::size_t t = 0; t < labels.size(); ++t) {
      if (labels[t] >= 0) {
        const T upstream = dy[reduction == Reduction::None ? t : 0];
        out.data()[d.at(static_cast<std::int64_t>(t), labels[t])] =
            narrow<T>(factor * static_cast<double>(widen(upstream)));
      }
    }
  });
}

}  // namespace

constinit const ir::OpDef kNllLossGrad{.name = "nll_loss_grad",
                                       .minInputs = 2,
                                       .maxInputs = 2,
                                       .attrs = kAttrs,
                                       .infer = infer,
                                       .grad = grad,
                                       .gradReads = {.inputs = 0b01},
                                       .cost = costPerOutput<1>,
                                       .reference = reference};

Value nllLossGrad(
    GraphBuilder& b, Value labels, Value dy, std::int64_t classes, NllOptions options) {
  return b.add(kNllLossGrad,
               {labels, dy},
               {{"reduction", name(options.reduction)},
                {"ignoreIndex", options.ignoreIndex},
                {"classes", classes}});
}

}  // namespace sluice::ops
