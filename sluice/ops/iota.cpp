// iota: 0, 1, 2 ... along one axis, the same for all others.
#include <array>

#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 3> kAttrs = {
    {{.name = "shape", .kind = ir::AttrKind::Ints, .required = true},
     {.name = "dtype", .kind = ir::AttrKind::Text, .text = "i64"},
     {.name = "axis", .kind = ir::AttrKind::Int}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  Shape shape(op.attrs.integers("shape"));
  axisAttr(op, shape);  // checks it
  return {{dtypeAttr(op), std::move(shape)}};
}

void reference(const ir::KernelArgs& args) {
  const Shape& shape = args.op.outputs[0].shape;
  const AxisView view = aroundAxis(shape, axisAttr(args.op, shape));
  dispatch(args.op.outputs[0].dtype, [&]<class T>(T) {
    const auto out = args.out<T>(0);
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      const std::int64_t at = i / view.inner % view.extent;
      out[static_cast<std::size_t>(i)] = narrow<T>(static_cast<Wide<T>>(at));
    }
  });
}

}  // namespace

constinit const ir::OpDef kIota{.name = "iota",
                                .minInputs = 0,
                                .maxInputs = 0,
                                .attrs = kAttrs,
                                .infer = infer,
                                .reference = reference};

Value iota(GraphBuilder& b, const TensorType& type, std::int64_t axis) {
  return b.add(
      kIota, {}, {{"shape", type.shape.dims()}, {"dtype", name(type.dtype)}, {"axis", axis}});
}

}  // namespace sluice::ops
