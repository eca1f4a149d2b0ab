// argmax: the position of the largest element along one axis, the first of equal ones, as i64. NaN
// counts as largest.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/reduce.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {{{.name = "axis", .kind = ir::AttrKind::Int},
                                                 {.name = "keepDims", .kind = ir::AttrKind::Bool}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Numeric);
  const Shape& shape = op.inputs[0].shape;
  const std::int64_t axis = axisAttr(op, shape);
  if (shape[axis] == 0) {
    raise<InvalidArgument>(
        "argmax: axis {} of {} is empty and has no largest element", axis, shape.str());
  }
  std::vector<std::int64_t> dims = withExtent(shape, axis, 1).dims();
  if (!op.attrs.flag("keepDims")) {
    dims.erase(dims.begin() + axis);
  }
  return {{DType::I64, Shape(std::move(dims))}};
}

void reference(const ir::KernelArgs& args) {
  const Shape& shape = args.op.inputs[0].shape;
  const AxisView view = aroundAxis(shape, axisAttr(args.op, shape));
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto in = args.in<T>(0);
    const auto out = args.out<std::int64_t>(0);
    for (std::int64_t o = 0; o < view.outer * view.inner; ++o) {
      const std::int64_t base = o / view.inner * view.extent * view.inner + o % view.inner;
      const auto at = [&](std::int64_t i) {
        return widen(in[static_cast<std::size_t>(base + i * view.inner)]);
      };
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < view.extent; ++i) {
        if (!notANumber(at(best)) && (notANumber(at(i)) || at(best) < at(i))) {
          best = i;
        }
      }
      out[static_cast<std::size_t>(o)] = best;
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"ArgMax", 1}, {"ArgMax", 11}, {"ArgMax", 12}, {"ArgMax", 13}};

}  // namespace

constinit const ir::OpDef kArgMax{.name = "argmax",
                                  .attrs = kAttrs,
                                  .infer = infer,
                                  .cost = costReduce,
                                  .reference = reference,
                                  .onnx = kOnnx};

Value argMax(GraphBuilder& b, Value x, std::int64_t axis, bool keepDims) {
  return b.add(kArgMax, {x}, {{"axis", axis}, {"keepDims", keepDims}});
}

}  // namespace sluice::ops
