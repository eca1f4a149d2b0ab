// Translations of pooling and of norms over windows and axes.
#include <algorithm>
#include <array>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/onnx/window_attrs.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/pool.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/window_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

/// Lists that the node leaves out stay so.
ops::PoolOptions poolOptions(Node& node) {
  Window w = poolWindow(node);
  w.padSame();
  return {.kernel = w.kernel,
          .strides = node.integers("strides"),
          .pads = w.padList(node),
          .ceilMode = node.flag("ceil_mode"),
          .countIncludePad = node.flag("count_include_pad")};
}

std::vector<Value> averagePool(Node& node) {
  return {ops::avgPool(node.b, node.input(0), poolOptions(node))};
}

Value i64Constant(ir::GraphBuilder& b, Ints dims, const Ints& numbers) {
  return b.constant(
      HostTensor::of<std::int64_t>(Shape(std::move(dims)), std::span<const std::int64_t>(numbers)));
}

/// Where the winners lie in the whole input, from their offsets inside the windows.
Value flatIndices(Node& node, Value offsets, const ops::PoolDims& d, bool columnMajor) {
  ops::Extents strides = {d.in[1] * d.in[2], d.in[2], 1};
  if (columnMajor) {
    strides = {1, d.in[0], d.in[0] * d.in[1]};
  }
  Ints insideWindow;
  for (std::int64_t k = 0; k < d.kernelSize(); ++k) {
    const ops::Extents at = {
        k / d.kernel[2] / d.kernel[1], k / d.kernel[2] % d.kernel[1], k % d.kernel[2]};
    insideWindow.push_back(at[0] * d.dilations[0] * strides[0] +
                           at[1] * d.dilations[1] * strides[1] +
                           at[2] * d.dilations[2] * strides[2]);
  }
  Ints corners;
  for (std::int64_t o = 0; o < d.outSize(); ++o) {
    corners.push_back(d.position(0, o / d.out[2] / d.out[1], 0) * strides[0] +
                      d.position(1, o / d.out[2] % d.out[1], 0) * strides[1] +
                      d.position(2, o % d.out[2], 0) * strides[2]);
  }
  Ints maps;
  for (std::int64_t m = 0; m < d.maps(); ++m) {
    maps.push_back(m * d.inSize());
  }
  ir::GraphBuilder& b = node.b;
  Ints cornerDims = d.outShape().dims();
  cornerDims[0] = cornerDims[1] = 1;
  Ints mapDims(cornerDims.size(), 1);
  mapDims[0] = d.batch;
  mapDims[1] = d.channels;
  const Value inside = ops::gather(
      b, i64Constant(b, {d.kernelSize()}, insideWindow), ops::cast(b, offsets, DType::I32));
  const Value inMap = ops::add(b, inside, i64Constant(b, std::move(cornerDims), corners));
  return ops::add(b, inMap, i64Constant(b, std::move(mapDims), maps));
}

std::vector<Value> maxPool(Node& node) {
  ops::PoolOptions options = poolOptions(node);
  options.dilations = node.integers("dilations");
  ir::Attrs attrs = ops::poolAttrs(options);
  attrs.set({"dilations", options.dilations});
  const DType dtype = node.dtype(0);
  // Float32 holds all 8-bit numbers.
  const Value x = isFloat(dtype) ? node.input(0) : ops::cast(node.b, node.input(0), DType::F32);
  std::vector<Value> results = node.b.addMany(ops::kMaxPool, {x}, std::move(attrs));
  const TensorType type = node.b.type(x);
  const ops::PoolDims dims =
      ops::poolDims(ir::view(node.b.graph().op(results[0].op), std::span(&type, 1)));
  results[0] = ops::cast(node.b, results[0], dtype);
  results[1] =
      node.wants(1) ? flatIndices(node, results[1], dims, node.flag("storage_order")) : Value();
  return results;
}

/// The p of an Lp norm: a real number in the first version.
double orderOf(const Node& node) {
  const ir::Attr* attr = node.find("p");
  const bool real = attr != nullptr && kindOf(*attr) == ir::AttrKind::Real;
  const double p = real ? node.real("p") : static_cast<double>(node.integer("p", 2));
  if (!(p > 0)) {
    raise<InvalidArgument>("p must be above 0, got {}", p);
  }
  return p;
}

Value raised(ir::GraphBuilder& b, Value x, double p) {
  if (p == 2) {
    return ops::square(b, x);
  }
  const Value size = ops::abs(b, x);
  return p == 1 ? size : ops::pow(b, size, b.scalar(b.dtype(x), p));
}

Value rooted(ir::GraphBuilder& b, Value sum, double p) {
  if (p == 2) {
    return ops::sqrt(b, sum);
  }
  return p == 1 ? sum : ops::pow(b, sum, b.scalar(b.dtype(sum), 1.0 / p));
}

std::vector<Value> lpPool(Node& node) {
  const double p = orderOf(node);
  ops::PoolOptions options = poolOptions(node);
  options.countIncludePad = true;  // then every window is divided by the size of the kernel
  double size = 1;
  for (const std::int64_t extent : options.kernel) {
    size *= static_cast<double>(extent);
  }
  const Value mean = ops::avgPool(node.b, raised(node.b, node.input(0), p), options);
  const Value sum = ops::mul(node.b, mean, node.b.scalar(node.b.dtype(mean), size));
  return {rooted(node.b, sum, p)};
}

using Reduce = Value (*)(ir::GraphBuilder&, Value, Ints, bool);

/// Over all spatial axes, which stay with extent 1.
Value reduceSpatial(ir::GraphBuilder& b, Value x, Reduce reduce) {
  Ints axes;
  for (std::int64_t axis = 2; axis < b.shape(x).rank(); ++axis) {
    axes.push_back(axis);
  }
  return axes.empty() ? ops::identity(b, x) : reduce(b, x, std::move(axes), true);
}

template <Reduce kReduce>
std::vector<Value> globalPool(Node& node) {
  return {reduceSpatial(node.b, node.input(0), kReduce)};
}

std::vector<Value> globalLpPool(Node& node) {
  const double p = orderOf(node);
  const Value powers = raised(node.b, node.input(0), p);
  return {rooted(node.b, reduceSpatial(node.b, powers, ops::reduceSum), p)};
}

std::vector<Value> lpNormalization(Node& node) {
  ir::GraphBuilder& b = node.b;
  const double p = orderOf(node);
  const Value x = node.input(0);
  const std::int64_t axis = node.integer("axis", -1);
  const Value norm = rooted(b, ops::reduceSum(b, raised(b, x, p), {axis}, true), p);
  const DType dtype = b.dtype(x);
  // Zeros stay zeros.
  const Value isZero = ops::equal(b, norm, b.scalar(dtype, 0));
  return {ops::div(b, x, ops::where(b, isZero, b.scalar(dtype, 1), norm))};
}

/// Each element is divided by a power of the mean square over the channels around it: pooling of
/// the channels as if they were an axis of positions.
std::vector<Value> lrn(Node& node) {
  ir::GraphBuilder& b = node.b;
  const Value x = node.input(0);
  const Shape shape = b.shape(x);
  const std::int64_t size = node.integer("size");
  if (shape.rank() < 2 || size < 1 || size > (std::int64_t{1} << 30)) {
    raise<InvalidArgument>(
        "expected [batch, channels, ...] and size >= 1, got {} and {}", shape.str(), size);
  }
  std::int64_t positions = 1;
  for (std::int64_t i = 2; i < shape.rank(); ++i) {
    positions *= shape[i];
  }
  const Value squares = ops::square(b, x);
  const Value rows = ops::reshape(b, squares, Shape{shape[0], 1, shape[1], positions});
  const Value means = ops::avgPool(
      b,
      rows,
      {.kernel = {size, 1}, .pads = {(size - 1) / 2, 0, size / 2, 0}, .countIncludePad = true});
  const DType dtype = b.dtype(x);
  const Value scaled =
      ops::mul(b, ops::reshape(b, means, shape), b.scalar(dtype, node.real("alpha", 1e-4)));
  const Value base = ops::add(b, scaled, b.scalar(dtype, node.real("bias", 1.0)));
  return {ops::mul(b, x, ops::pow(b, base, b.scalar(dtype, -node.real("beta", 0.75))))};
}

constexpr std::array kPoolTranslations = {
    Translation{"AveragePool", averagePool},
    Translation{"GlobalAveragePool", globalPool<ops::reduceMean>},
    Translation{"GlobalLpPool", globalLpPool},
    Translation{"GlobalMaxPool", globalPool<ops::reduceMax>},
    Translation{"LRN", lrn},
    Translation{"LpNormalization", lpNormalization},
    Translation{"LpPool", lpPool},
    Translation{"MaxPool", maxPool},
};

}  // namespace

std::span<const Translation> poolTranslations() {
  return kPoolTranslations;
}

}  // namespace sluice::onnx
