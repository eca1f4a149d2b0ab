// max_pool_grad: sends each output's gradient to the element that won its window, given max_pool's
// indices.
#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/pool.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/window_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 6> kAttrs = {
    {kPoolKernel, kPoolStrides, kPoolPads, kPoolDilations, kPoolCeil, kPoolInput}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 1, Accepts::Floating);
  const PoolDims d = poolDims(op);
  if (op.inputs[0].dtype != poolIndexType(d)) {
    raise<InvalidArgument>("max_pool_grad: indices of a window of {} positions must be {}, got {}",
                           d.kernelSize(),
                           name(poolIndexType(d)),
                           op.inputs[0].str());
  }
  return {{op.inputs[1].dtype, Shape(op.attrs.integers("inputShape"))}};
}

/// Where each place of each window lies in its map, -1 in the padding.
HostTensor tapTable(const PoolDims& d) {
  HostTensor table = HostTensor::full({DType::I64, Shape{d.outSize() * d.kernelSize()}}, -1.0);
  const auto places = table.data<std::int64_t>();
  forEachTap(d, [&](std::int64_t x, std::int64_t k, std::int64_t y) {
    places[static_cast<std::size_t>(y * d.kernelSize() + k)] = x;
  });
  return table;
}

/// An output's gradient reached the winner of its window, so it is the winner's that comes back.
std::vector<Value> grad(ir::GradContext& g) {
  GraphBuilder& b = g.b;
  const PoolDims d = poolDims(g.op);
  if (g.op.inputs[1].bytes() == 0) {
    return {Value(), full(b, g.op.inputs[1], 0.0)};
  }
  const Shape flat{d.maps(), d.outSize()};
  const Value firsts = mul(b,
                           iota(b, {DType::I64, Shape{1, d.outSize()}}, 1),
                           b.scalar(DType::I64, static_cast<double>(d.kernelSize())));
  const Value offsets = reshape(b, cast(b, g.input(0), DType::I64), flat);
  const Value places = gather(b, b.constant(tapTable(d)), add(b, firsts, offsets), 0);
  const Value zero = b.scalar(DType::I64, 0.0);
  const Value winners = gatherElements(
      b, reshape(b, g.grad(), Shape{d.maps(), d.inSize()}), maximum(b, places, zero), 1);
  const Value inside = greaterEqual(b, places, zero);
  const Value back = where(b, inside, winners, b.scalar(g.op.inputs[1].dtype, 0.0));
  return {Value(), reshape(b, back, g.op.inputs[1].shape)};
}

template <class T>
void scatter(const ir::KernelArgs& args, const PoolDims& d, auto indices) {
  const T* dy = args.in<T>(1).data();
  const auto out = args.out<T>(0);
  std::vector<double> sums(out.size(), 0.0);
  for (std::int64_t m = 0; m < d.maps(); ++m) {
    double* to = sums.data() + m * d.inSize();
    const std::int64_t first = m * d.outSize();
    forEachTap(d, [&](std::int64_t x, std::int64_t k, std::int64_t y) {
      if (static_cast<std::int64_t>(indices.data()[first + y]) == k) {
        to[x] += static_cast<double>(widen(dy[first + y]));
      }
    });
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = narrow<T>(sums[i]);
  }
}

void reference(const ir::KernelArgs& args) {
  const PoolDims d = poolDims(args.op);
  dispatch(args.op.inputs[1].dtype, [&]<class T>(T) {
    if (args.op.inputs[0].dtype == DType::U8) {
      scatter<T>(args, d, args.in<std::uint8_t>(0));
    } else {
      scatter<T>(args, d, args.in<std::int32_t>(0));
    }
  });
}

}  // namespace

constinit const ir::OpDef kMaxPoolGrad{.name = "max_pool_grad",
                                       .minInputs = 2,
                                       .maxInputs = 2,
                                       .attrs = kAttrs,
                                       .infer = infer,
                                       .grad = grad,
                                       .gradReads = {.inputs = 0b1},
                                       .cost = costPool,
                                       .reference = reference};

Value maxPoolGrad(
    GraphBuilder& b, Value indices, Value dy, const Shape& inputShape, const PoolOptions& options) {
  ir::Attrs attrs = poolAttrs(options);
  attrs.set({"dilations", options.dilations});
  attrs.set({"inputShape", inputShape.dims()});
  return b.add(kMaxPoolGrad, {indices, dy}, std::move(attrs));
}

}  // namespace sluice::ops
