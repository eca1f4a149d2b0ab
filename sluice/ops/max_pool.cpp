// max_pool: the largest element of each window, and its offset inside the window (the first of
// equals), which is all the gradient needs. Padding never wins; NaN does. A window that lies wholly
// in the padding gives -infinity, offset 0, and passes no gradient.
#include <cmath>
#include <limits>

#include "sluice/ops/pool.h"
#include "sluice/ops/window_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 5> kAttrs = {
    {kPoolKernel, kPoolStrides, kPoolPads, kPoolDilations, kPoolCeil}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  const PoolDims d = poolDims(op);
  return {{op.inputs[0].dtype, d.outShape()}, {poolIndexType(d), d.outShape()}};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {maxPoolGrad(g.b, g.output(1), g.grad(), g.op.inputs[0].shape, poolOptions(g.op))};
}

template <class T, class Index>
void poolMap(const PoolDims& d, const T* in, T* out, Index* indices) {
  std::vector<double> best(static_cast<std::size_t>(d.outSize()),
                           -std::numeric_limits<double>::infinity());
  std::vector<bool> found(best.size(), false);
  std::fill_n(indices, d.outSize(), Index{0});
  forEachTap(d, [&](std::int64_t x, std::int64_t k, std::int64_t y) {
    const auto o = static_cast<std::size_t>(y);
    const auto value = static_cast<double>(widen(in[x]));
    if (!found[o] || value > best[o] || (std::isnan(value) && !std::isnan(best[o]))) {
      found[o] = true;
      best[o] = value;
      indices[y] = static_cast<Index>(k);
    }
  });
  for (std::size_t o = 0; o < best.size(); ++o) {
    out[o] = narrow<T>(best[o]);
  }
}

void reference(const ir::KernelArgs& args) {
  const PoolDims d = poolDims(args.op);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const T* in = args.in<T>(0).data();
    T* out = args.out<T>(0).data();
    const auto run = [&](auto indices) {
      for (std::int64_t m = 0; m < d.maps(); ++m) {
        poolMap(d, in + m * d.inSize(), out + m * d.outSize(), indices.data() + m * d.outSize());
      }
    };
    if (args.op.outputs[1].dtype == DType::U8) {
      run(args.out<std::uint8_t>(1));
    } else {
      run(args.out<std::int32_t>(1));
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {
    {"MaxPool", 1}, {"MaxPool", 8}, {"MaxPool", 10}, {"MaxPool", 11}, {"MaxPool", 12}};

}  // namespace

constinit const ir::OpDef kMaxPool{.name = "max_pool",
                                   .outputs = 2,
                                   .attrs = kAttrs,
                                   .infer = infer,
                                   .grad = grad,
                                   .gradReads = {.outputs = 0b10},
                                   .cost = costPool,
                                   .reference = reference,
                                   .onnx = kOnnx};

Value maxPool(GraphBuilder& b, Value x, const PoolOptions& options) {
  ir::Attrs attrs = poolAttrs(options);
  attrs.set({"dilations", options.dilations});
  return b.add(kMaxPool, {x}, std::move(attrs));
}

}  // namespace sluice::ops
