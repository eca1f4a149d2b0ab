// slice_scatter: zeros of a given shape with x placed where slice would take it from: the gradient
// of slice.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/slice.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 4> kAttrs = {
    {{.name = "shape", .kind = ir::AttrKind::Ints, .required = true},
     {.name = "starts", .kind = ir::AttrKind::Ints, .required = true},
     {.name = "ends", .kind = ir::AttrKind::Ints, .required = true},
     {.name = "steps", .kind = ir::AttrKind::Ints}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  Shape shape(op.attrs.integers("shape"));
  std::vector<std::int64_t> dims;
  for (const SliceAxis& axis : sliceAxes(op, shape)) {
    dims.push_back(axis.count);
  }
  if (const Shape taken(std::move(dims)); taken != op.inputs[0].shape) {
    raise<InvalidArgument>("slice_scatter: the slice of {} has the shape {}, but the input is {}",
                           shape.str(),
                           taken.str(),
                           op.inputs[0].shape.str());
  }
  return {{op.inputs[0].dtype, std::move(shape)}};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {slice(g.b,
                g.grad(),
                g.op.attrs.integers("starts"),
                g.op.attrs.integers("ends"),
                g.op.attrs.integers("steps"))};
}

void reference(const ir::KernelArgs& args) {
  placeMapped(args, sliceMap(args.op, args.op.outputs[0].shape));
}

}  // namespace

constinit const ir::OpDef kSliceScatter{
    .name = "slice_scatter", .attrs = kAttrs, .infer = infer, .grad = grad, .reference = reference};

Value sliceScatter(GraphBuilder& b,
                   Value x,
                   const Shape& shape,
                   std::vector<std::int64_t> starts,
                   std::vector<std::int64_t> ends,
                   std::vector<std::int64_t> steps) {
  return b.add(kSliceScatter,
               {x},
               {{"shape", shape.dims()},
                {"starts", std::move(starts)},
                {"ends", std::move(ends)},
                {"steps", std::move(steps)}});
}

}  // namespace sluice::ops
