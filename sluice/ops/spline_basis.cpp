// spline_basis: the B-spline functions that are not 0 at each edge's pseudo-coordinates, as
// products over the axes, and which weights of the kernel they belong to. Along an axis of extent k
// the place is v = u (k - degree if the spline is open, else k); its degree + 1 functions are those
// at the nodes floor(v) to floor(v) + degree (modulo k), polynomials in the rest v - floor(v).
// Product s of an edge has function s % (degree + 1) of axis 0, and so on.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/ops.h"
#include "sluice/ops/vendor.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "degree", .kind = ir::AttrKind::Int, .integer = 1}}};
constexpr std::int64_t kMaxDegree = 3;
constexpr std::int64_t kMaxProducts = 1 << 20;

/// Of each function's polynomial, the factors of 1, v, v^2 and v^3.
using Polynomial = std::array<double, 4>;
constexpr std::array<Polynomial, 2> kLinear = {{{1, -1, 0, 0}, {0, 1, 0, 0}}};
constexpr std::array<Polynomial, 3> kQuadratic = {
    {{0.5, -1, 0.5, 0}, {0.5, 1, -1, 0}, {0, 0, 0.5, 0}}};
constexpr std::array<Polynomial, 4> kCubic = {{{1.0 / 6, -0.5, 0.5, -1.0 / 6},
                                               {4.0 / 6, 0, -1, 0.5},
                                               {1.0 / 6, 0.5, 0.5, -0.5},
                                               {0, 0, 0, 1.0 / 6}}};

std::span<const Polynomial> polynomials(std::int64_t degree) {
  return degree == 1   ? std::span<const Polynomial>(kLinear)
         : degree == 2 ? std::span<const Polynomial>(kQuadratic)
                       : kCubic;
}

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  requireDType(op, 1, Accepts::Integer);
  const Shape& pseudo = op.inputs[0].shape;
  if (pseudo.rank() != 2 || pseudo[1] < 1 || op.inputs[1].shape != Shape{pseudo[1]} ||
      op.inputs[2].shape != Shape{pseudo[1]}) {
    raise<InvalidArgument>(
        "spline_basis: expected pseudo-coordinates [edges, axes], kernel extents [axes] and flags "
        "[axes], got {}, {} and {}",
        op.inputs[0].str(),
        op.inputs[1].str(),
        op.inputs[2].str());
  }
  const std::int64_t degree = op.integer("degree");
  if (degree < 1 || degree > kMaxDegree) {
    raise<InvalidArgument>("spline_basis: the degree must be 1 to {}, got {}", kMaxDegree, degree);
  }
  std::int64_t products = 1;
  for (std::int64_t d = 0; d < pseudo[1]; ++d) {
    products *= degree + 1;
    if (products > kMaxProducts) {
      raise<InvalidArgument>("spline_basis: {} axes of degree {} have more than {} products",
                             pseudo[1],
                             degree,
                             kMaxProducts);
    }
  }
  const Shape each{pseudo[0], products};
  return {{op.inputs[0].dtype, each}, {DType::I64, each}};
}

Value polynomial(GraphBuilder& b, Value v, const Polynomial& factors) {
  const DType dtype = b.dtype(v);
  Value sum = full(b, b.type(v), factors[3]);
  for (std::size_t i = 3; i-- > 0;) {
    sum = add(b, mul(b, sum, v), b.scalar(dtype, factors[i]));
  }
  return sum;
}

/// One column of a matrix, or one element of a list.
Value along(GraphBuilder& b, Value x, std::int64_t at) {
  const Shape shape = b.shape(x);
  std::vector<std::int64_t> starts(shape.dims().size(), 0);
  std::vector<std::int64_t> ends = shape.dims();
  starts.back() = at;
  ends.back() = at + 1;
  return slice(b, x, std::move(starts), std::move(ends));
}

/// f(own [edges, k, 1], inner [edges, 1, n]) as [edges, k n]: what was before varies fastest.
template <class F>
Value combined(GraphBuilder& b, Value own, Value inner, F f) {
  const Shape first = b.shape(own);
  const Shape second = b.shape(inner);
  const Value all = f(reshape(b, own, Shape{first[0], first[1], 1}),
                      reshape(b, inner, Shape{second[0], 1, second[1]}));
  return reshape(b, all, Shape{first[0], first[1] * second[1]});
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const DType dtype = op.inputs[0].dtype;
  const std::int64_t degree = op.integer("degree");
  const Value open =
      mul(b, cast(b, inputs[2], dtype), b.scalar(dtype, static_cast<double>(degree)));
  const Value places = mul(b, inputs[0], sub(b, cast(b, inputs[1], dtype), open));
  const Value nodes = floor(b, places);
  const Value rests = sub(b, places, nodes);
  const Value extents = cast(b, inputs[1], DType::I64);
  const Value steps = iota(b, {DType::I64, Shape{1, degree + 1}}, 1);
  Value basis;
  Value indices;
  Value stride;
  for (std::int64_t d = 0; d < op.inputs[0].shape[1]; ++d) {
    std::vector<Value> functions;
    for (const Polynomial& factors : polynomials(degree)) {
      functions.push_back(polynomial(b, along(b, rests, d), factors));
    }
    const Value own = concat(b, functions, 1);
    const Value extent = along(b, extents, d);
    const Value node = add(b, cast(b, along(b, nodes, d), DType::I64), steps);
    const Value index = mod(b, node, extent);
    if (d == 0) {
      basis = own;
      indices = index;
      stride = extent;
      continue;
    }
    basis = combined(b, own, basis, [&](Value x, Value y) { return mul(b, x, y); });
    indices =
        combined(b, mul(b, index, stride), indices, [&](Value x, Value y) { return add(b, x, y); });
    stride = mul(b, stride, extent);
  }
  return {basis, indices};
}

constexpr ir::OnnxName kOnnx[] = {{"SplineBasis", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kSplineBasis{.name = "spline_basis",
                                       .minInputs = 3,
                                       .maxInputs = 3,
                                       .outputs = 2,
                                       .attrs = kAttrs,
                                       .infer = infer,
                                       .decompose = decompose,
                                       .onnx = kOnnx};

SplineBasisValues splineBasis(
    GraphBuilder& b, Value pseudo, Value kernelSize, Value isOpen, std::int64_t degree) {
  const std::vector<Value> results =
      b.addMany(kSplineBasis, {pseudo, kernelSize, isOpen}, {{"degree", degree}});
  return {.basis = results[0], .indices = results[1]};
}

}  // namespace sluice::ops
