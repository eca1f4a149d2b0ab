// ctc_loss_grad: the gradient of ctc_loss by its log-probabilities, from the same operands and the
// gradients of the losses. What is impossible or behind an item's length gets 0.
#include "sluice/ops/cost.h"
#include "sluice/ops/ctc.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/norm.h"

namespace sluice::ops {
namespace {

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  requireType(op, 4, "the output gradient", {op.inputs[0].dtype, Shape{ctcDims(op).batch}});
  return {op.inputs[0]};
}

void reference(const ir::KernelArgs& args) {
  const CtcDims d = ctcDims(args.op);
  const std::vector<double> logs = loadDoubles(args, 0);
  const std::vector<double> dy = loadDoubles(args, 4);
  std::vector<double> slopes(logs.size(), 0.0);
  CtcPaths paths(d, args.op.integer("blank"), logs);
  std::size_t n = 0;
  for (const CtcItem& item : readCtcItems(args, d)) {
    paths.sum(static_cast<std::int64_t>(n), item.steps, item.labels);
    paths.addSlopes(-dy[n++], slopes);
  }
  storeDoubles(args, 0, slopes);
}

}  // namespace

constinit const ir::OpDef kCtcLossGrad{.name = "ctc_loss_grad",
                                       .minInputs = 5,
                                       .maxInputs = 5,
                                       .attrs = kCtcAttrs,
                                       .infer = infer,
                                       .cost = costPerInput<16>,
                                       .reference = reference};

}  // namespace sluice::ops
