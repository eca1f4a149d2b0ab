// cumsum: running sums along one axis: of the elements up to each one (exclusive: before it), from
// the front or (reverse) from the back.
#include <array>

#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/reduce.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 3> kAttrs = {{{.name = "axis", .kind = ir::AttrKind::Int},
                                                 {.name = "exclusive", .kind = ir::AttrKind::Bool},
                                                 {.name = "reverse", .kind = ir::AttrKind::Bool}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Numeric);
  axisAttr(op, op.inputs[0].shape);  // checks it
  return {op.inputs[0]};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {
      cumSum(g.b,
             g.grad(),
             g.op.integer("axis"),
             {.exclusive = g.op.attrs.flag("exclusive"), .reverse = !g.op.attrs.flag("reverse")})};
}

void reference(const ir::KernelArgs& args) {
  const Shape& shape = args.op.inputs[0].shape;
  const AxisView view = aroundAxis(shape, axisAttr(args.op, shape));
  const bool exclusive = args.op.attrs.flag("exclusive");
  const bool reverse = args.op.attrs.flag("reverse");
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const auto in = args.in<T>(0);
    const auto out = args.out<T>(0);
    for (std::int64_t o = 0; o < view.outer * view.inner; ++o) {
      const std::int64_t base = o / view.inner * view.extent * view.inner + o % view.inner;
      W sum{};
      for (std::int64_t k = 0; k < view.extent; ++k) {
        const std::int64_t at = base + (reverse ? view.extent - 1 - k : k) * view.inner;
        const auto i = static_cast<std::size_t>(at);
        const W next = wrappedSum(sum, widen(in[i]));
        out[i] = narrow<T>(exclusive ? sum : next);
        sum = next;
      }
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"CumSum", 11}, {"CumSum", 14}};

}  // namespace

constinit const ir::OpDef kCumSum{.name = "cumsum",
                                  .attrs = kAttrs,
                                  .infer = infer,
                                  .grad = grad,
                                  .cost = costReduce,
                                  .reference = reference,
                                  .onnx = kOnnx};

Value cumSum(GraphBuilder& b, Value x, std::int64_t axis, CumSumOptions options) {
  return b.add(kCumSum,
               {x},
               {{"axis", axis}, {"exclusive", options.exclusive}, {"reverse", options.reverse}});
}

}  // namespace sluice::ops
