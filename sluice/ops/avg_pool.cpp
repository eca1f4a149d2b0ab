// avg_pool: the mean of each window over the positions inside the input or, with countIncludePad,
// inside the given padding too (never over what rounding up adds behind it).
#include "sluice/base/error.h"
#include "sluice/ops/pool.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/window_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 5> kAttrs = {
    {kPoolKernel, kPoolStrides, kPoolPads, kPoolCeil, kPoolCount}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  return {{op.inputs[0].dtype, poolDims(op).outShape()}};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {avgPoolGrad(g.b, g.grad(), g.op.inputs[0].shape, poolOptions(g.op))};
}

void reference(const ir::KernelArgs& args) {
  const PoolDims d = poolDims(args.op);
  const std::vector<double> divisors = avgPoolDivisors(d, args.op.attrs.flag("countIncludePad"));
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const T* in = args.in<T>(0).data();
    T* out = args.out<T>(0).data();
    for (std::int64_t m = 0; m < d.maps(); ++m) {
      std::vector<double> sums(divisors.size(), 0.0);
      forEachTap(d, [&](std::int64_t x, std::int64_t, std::int64_t y) {
        sums[static_cast<std::size_t>(y)] += static_cast<double>(widen(in[m * d.inSize() + x]));
      });
      for (std::size_t o = 0; o < sums.size(); ++o) {
        *out++ = narrow<T>(sums[o] / divisors[o]);
      }
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {
    {"AveragePool", 1}, {"AveragePool", 7}, {"AveragePool", 10}, {"AveragePool", 11}};

}  // namespace

constinit const ir::OpDef kAvgPool{.name = "avg_pool",
                                   .attrs = kAttrs,
                                   .infer = infer,
                                   .grad = grad,
                                   .cost = costPool,
                                   .reference = reference,
                                   .onnx = kOnnx};

Value avgPool(GraphBuilder& b, Value x, const PoolOptions& options) {
  if (!options.dilations.empty()) {
    raise<InvalidArgument>("avg_pool: dilations are not supported; use a convolution");
  }
  ir::Attrs attrs = poolAttrs(options);
  attrs.set({"countIncludePad", options.countIncludePad});
  return b.add(kAvgPool, {x}, std::move(attrs));
}

Value globalAvgPool(GraphBuilder& b, Value x) {
  const std::int64_t rank = b.shape(x).rank();
  if (rank < 3) {
    raise<InvalidArgument>("globalAvgPool: expected [batch, channels, spatial...], got {}",
                           b.shape(x).str());
  }
  std::vector<std::int64_t> axes;
  for (std::int64_t axis = 2; axis < rank; ++axis) {
    axes.push_back(axis);
  }
  return reduceMean(b, x, std::move(axes), true);
}

}  // namespace sluice::ops
