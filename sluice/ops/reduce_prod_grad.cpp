// reduce_prod_grad: dy times the product of all other reduced elements, for each element of x. The
// products before and after an element are multiplied, so zeros in x need no division.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/reduce.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{{.name = "axes", .kind = ir::AttrKind::Ints}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  requireSameDType(op);
  if (op.inputs[1].shape.elements() != keptShape(op).elements()) {
    raise<InvalidArgument>("reduce_prod_grad: the reduction of {} has the shape {}, but dy is {}",
                           op.inputs[0].str(),
                           keptShape(op).str(),
                           op.inputs[1].str());
  }
  return {op.inputs[0]};
}

ir::Cost cost(const ir::OpView& op) {
  return {.flops = 4.0 * static_cast<double>(op.inputs[0].shape.elements()),
          .bytesRead = static_cast<double>(op.inputs[0].bytes() + op.inputs[1].bytes()),
          .bytesWritten = static_cast<double>(op.outputs[0].bytes())};
}

void reference(const ir::KernelArgs& args) {
  const BroadcastIndex target(keptShape(args.op), args.op.inputs[0].shape);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto x = args.in<T>(0);
    const auto dy = args.in<T>(1);
    const auto out = args.out<T>(0);
    std::vector<double> slopes(x.size());
    std::vector<double> before(dy.size(), 1.0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto group = static_cast<std::size_t>(target(static_cast<std::int64_t>(i)));
      slopes[i] = before[group];
      before[group] *= static_cast<double>(widen(x[i]));
    }
    std::vector<double> after(dy.size(), 1.0);
    for (std::size_t i = x.size(); i-- > 0;) {
      const auto group = static_cast<std::size_t>(target(static_cast<std::int64_t>(i)));
      out[i] = narrow<T>(slopes[i] * after[group] * static_cast<double>(widen(dy[group])));
      after[group] *= static_cast<double>(widen(x[i]));
    }
  });
}

}  // namespace

constinit const ir::OpDef kReduceProdGrad{.name = "reduce_prod_grad",
                                          .minInputs = 2,
                                          .maxInputs = 2,
                                          .attrs = kAttrs,
                                          .infer = infer,
                                          .cost = cost,
                                          .reference = reference};

Value reduceProdGrad(GraphBuilder& b, Value x, Value dy, std::vector<std::int64_t> axes) {
  return b.add(kReduceProdGrad, {x, dy}, {{"axes", std::move(axes)}});
}

}  // namespace sluice::ops
