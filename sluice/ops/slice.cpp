// slice: every step-th element from start to before end of each axis. Negative starts and ends
// count from the end and all are clamped, as in NumPy; with a negative step an end below -extent
// (such as the lowest integer) takes in element 0.
#include "sluice/ops/slice.h"

#include <algorithm>
#include <array>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 3> kAttrs = {
    {{.name = "starts", .kind = ir::AttrKind::Ints, .required = true},
     {.name = "ends", .kind = ir::AttrKind::Ints, .required = true},
     {.name = "steps", .kind = ir::AttrKind::Ints}}};

SliceAxis clamped(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t extent) {
  // Going down, the first element before the axis (-1) is where an axis ends.
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? extent : extent - 1;
  const auto place = [&](std::int64_t at) {
    return std::clamp(at < 0 ? at + extent : at, low, high);
  };
  SliceAxis axis{.start = place(start), .step = step};
  const std::int64_t distance = step > 0 ? place(end) - axis.start : axis.start - place(end);
  const std::int64_t stride =
      step > 0 ? step : -std::max(step, -std::numeric_limits<std::int64_t>::max());
  axis.count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  return axis;
}

std::vector<TensorType> infer(const ir::OpView& op) {
  std::vector<std::int64_t> dims;
  for (const SliceAxis& axis : sliceAxes(op, op.inputs[0].shape)) {
    dims.push_back(axis.count);
  }
  return {{op.inputs[0].dtype, Shape(std::move(dims))}};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {sliceScatter(g.b,
                       g.grad(),
                       g.op.inputs[0].shape,
                       g.op.attrs.integers("starts"),
                       g.op.attrs.integers("ends"),
                       g.op.attrs.integers("steps"))};
}

void reference(const ir::KernelArgs& args) {
  copyMapped(args, sliceMap(args.op, args.op.inputs[0].shape));
}

constexpr ir::OnnxName kOnnx[] = {{"Slice", 1}, {"Slice", 10}, {"Slice", 11}};

}  // namespace

std::vector<SliceAxis> sliceAxes(const ir::OpView& op, const Shape& shape) {
  const auto& starts = perAxisAttr(op, "starts", shape.rank());
  const auto& ends = perAxisAttr(op, "ends", shape.rank());
  std::vector<std::int64_t> steps = op.attrs.integers("steps");
  if (steps.empty()) {
    steps.assign(starts.size(), 1);
  } else {
    perAxisAttr(op, "steps", shape.rank());
  }
  std::vector<SliceAxis> axes;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (steps[i] == 0) {
      raise<InvalidArgument>("{}: the step of axis {} is 0", op.def.name, i);
    }
    axes.push_back(clamped(starts[i], ends[i], steps[i], shape.dims()[i]));
  }
  return axes;
}

AxisMap sliceMap(const ir::OpView& op, const Shape& shape) {
  std::vector<std::vector<std::int64_t>> coordinates;
  for (const SliceAxis& axis : sliceAxes(op, shape)) {
    std::vector<std::int64_t>& list = coordinates.emplace_back();
    for (std::int64_t i = 0; i < axis.count; ++i) {
      list.push_back(axis.start + i * axis.step);
    }
  }
  return {shape, std::move(coordinates)};
}

constinit const ir::OpDef kSlice{.name = "slice",
                                 .attrs = kAttrs,
                                 .infer = infer,
                                 .grad = grad,
                                 .cost = costOfMove,
                                 .reference = reference,
                                 .onnx = kOnnx};

Value slice(GraphBuilder& b,
            Value x,
            std::vector<std::int64_t> starts,
            std::vector<std::int64_t> ends,
            std::vector<std::int64_t> steps) {
  return b.add(
      kSlice,
      {x},
      {{"starts", std::move(starts)}, {"ends", std::move(ends)}, {"steps", std::move(steps)}});
}

}  // namespace sluice::ops
