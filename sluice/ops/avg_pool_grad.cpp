// avg_pool_grad: spreads each output's gradient evenly over its window; linear, so its own gradient
// is avg_pool.
#include "sluice/ops/pool.h"
#include "sluice/ops/window_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 6> kAttrs = {
    {kPoolKernel, kPoolStrides, kPoolPads, kPoolCeil, kPoolCount, kPoolInput}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  poolDims(op);
  return {{op.inputs[0].dtype, Shape(op.attrs.integers("inputShape"))}};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {avgPool(g.b, g.grad(), poolOptions(g.op))};
}

void reference(const ir::KernelArgs& args) {
  const PoolDims d = poolDims(args.op);
  const std::vector<double> divisors = avgPoolDivisors(d, args.op.attrs.flag("countIncludePad"));
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const T* dy = args.in<T>(0).data();
    const auto out = args.out<T>(0);
    std::vector<double> sums(out.size(), 0.0);
    for (std::int64_t m = 0; m < d.maps(); ++m) {
      double* to = sums.data() + m * d.inSize();
      forEachTap(d, [&](std::int64_t x, std::int64_t, std::int64_t y) {
        to[x] += static_cast<double>(widen(dy[m * d.outSize() + y])) /
                 divisors[static_cast<std::size_t>(y)];
      });
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = narrow<T>(sums[i]);
    }
  });
}

}  // namespace

constinit const ir::OpDef kAvgPoolGrad{.name = "avg_pool_grad",
                                       .attrs = kAttrs,
                                       .infer = infer,
                                       .grad = grad,
                                       .cost = costPool,
                                       .reference = reference};

Value avgPoolGrad(GraphBuilder& b, Value dy, const Shape& inputShape, const PoolOptions& options) {
  ir::Attrs attrs = poolAttrs(options);
  attrs.set({"countIncludePad", options.countIncludePad});
  attrs.set({"inputShape", inputShape.dims()});
  return b.add(kAvgPoolGrad, {dy}, std::move(attrs));
}

}  // namespace sluice::ops
