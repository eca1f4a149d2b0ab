// spline_weighting: per edge, x [edges, in] times the sum of the weights [kernel, in, out] that the
// indices [edges, products] name, each scaled by its basis product.
#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/ops.h"
#include "sluice/ops/vendor.h"

namespace sluice::ops {
namespace {

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  requireIndices(op, 3);
  const Shape& x = op.inputs[0].shape;
  const Shape& weight = op.inputs[1].shape;
  const Shape& basis = op.inputs[2].shape;
  const bool fits = x.rank() == 2 && weight.rank() == 3 && basis.rank() == 2 && weight[1] == x[1] &&
                    basis[0] == x[0] && op.inputs[3].shape == basis;
  const bool sameType =
      op.inputs[1].dtype == op.inputs[0].dtype && op.inputs[2].dtype == op.inputs[0].dtype;
  if (!fits || !sameType) {
    raise<InvalidArgument>(
        "spline_weighting: expected x [edges, in], weights [kernel, in, out], a basis [edges, "
        "products] of one type and indices like the basis, got {}, {}, {} and {}",
        op.inputs[0].str(),
        op.inputs[1].str(),
        op.inputs[2].str(),
        op.inputs[3].str());
  }
  return {{op.inputs[0].dtype, Shape{x[0], weight[2]}}};
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const Shape& x = op.inputs[0].shape;
  const Shape& basis = op.inputs[2].shape;
  const std::int64_t out = op.inputs[1].shape[2];
  const Value picked = gather(b, inputs[1], inputs[3], 0);
  const Value rows = reshape(b, inputs[0], Shape{x[0], 1, 1, x[1]});
  const Value products = reshape(b, matmul(b, rows, picked), Shape{basis[0], basis[1], out});
  const Value scales = reshape(b, inputs[2], Shape{basis[0], basis[1], 1});
  return {reduceSum(b, mul(b, products, scales), {1})};
}

constexpr ir::OnnxName kOnnx[] = {{"SplineWeighting", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kSplineWeighting{.name = "spline_weighting",
                                           .minInputs = 4,
                                           .maxInputs = 4,
                                           .infer = infer,
                                           .decompose = decompose,
                                           .onnx = kOnnx};

Value splineWeighting(GraphBuilder& b, Value x, Value weight, const SplineBasisValues& basis) {
  return b.add(kSplineWeighting, {x, weight, basis.basis, basis.indices});
}

}  // namespace sluice::ops
