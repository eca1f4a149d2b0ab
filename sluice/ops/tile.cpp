// tile: the whole tensor repeated along each axis.
#include <array>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "repeats", .kind = ir::AttrKind::Ints, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  const Shape& shape = op.inputs[0].shape;
  const auto& repeats = perAxisAttr(op, "repeats", shape.rank());
  std::vector<std::int64_t> dims = shape.dims();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (repeats[i] < 0 ||
        (dims[i] != 0 && repeats[i] > std::numeric_limits<std::int64_t>::max() / dims[i])) {
      raise<InvalidArgument>(
          "tile: axis {} of {} cannot be repeated {} times", i, shape.str(), repeats[i]);
    }
    dims[i] *= repeats[i];
  }
  return {{op.inputs[0].dtype, Shape(std::move(dims))}};
}

std::vector<Value> grad(ir::GradContext& g) {
  // Axis i becomes [repeats, extent]; the sum over all repeats is left.
  const auto& repeats = g.op.attrs.integers("repeats");
  if (repeats.empty()) {
    return {g.grad()};
  }
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    axes.push_back(static_cast<std::int64_t>(dims.size()));
    dims.push_back(repeats[i]);
    dims.push_back(g.op.inputs[0].shape.dims()[i]);
  }
  return {reduceSum(g.b, reshape(g.b, g.grad(), Shape(std::move(dims))), std::move(axes))};
}

void reference(const ir::KernelArgs& args) {
  std::vector<std::vector<std::int64_t>> coordinates;
  for (std::int64_t axis = 0; axis < args.op.inputs[0].shape.rank(); ++axis) {
    std::vector<std::int64_t>& list = coordinates.emplace_back();
    for (std::int64_t i = 0; i < args.op.outputs[0].shape[axis]; ++i) {
      list.push_back(i % args.op.inputs[0].shape[axis]);
    }
  }
  copyMapped(args, AxisMap(args.op.inputs[0].shape, std::move(coordinates)));
}

constexpr ir::OnnxName kOnnx[] = {{"Tile", 6}};

}  // namespace

constinit const ir::OpDef kTile{.name = "tile",
                                .attrs = kAttrs,
                                .infer = infer,
                                .grad = grad,
                                .reference = reference,
                                .onnx = kOnnx};

Value tile(GraphBuilder& b, Value x, std::vector<std::int64_t> repeats) {
  return b.add(kTile, {x}, {{"repeats", std::move(repeats)}});
}

}  // namespace sluice::ops
