// split: pieces of the given sizes along one axis.
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "axis", .kind = ir::AttrKind::Int, .required = true},
     {.name = "sizes", .kind = ir::AttrKind::Ints, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  const Shape& shape = op.inputs[0].shape;
  const std::int64_t axis = axisAttr(op, shape);
  const std::vector<std::int64_t>& sizes = op.attrs.integers("sizes");
  std::int64_t rest = shape[axis];
  std::vector<TensorType> types;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > rest) {
      break;
    }
    rest -= size;
    types.push_back({op.inputs[0].dtype, withExtent(shape, axis, size)});
  }
  if (rest != 0 || types.size() != sizes.size() || types.empty()) {
    raise<InvalidArgument>("split: sizes [{}] do not add up to the extent {} of axis {}",
                           fmt::join(sizes, ", "),
                           shape[axis],
                           axis);
  }
  return types;
}

std::vector<Value> grad(ir::GradContext& g) {
  std::vector<Value> pieces;
  for (std::size_t i = 0; i < g.op.outputs.size(); ++i) {
    pieces.push_back(g.grad(i).valid() ? g.grad(i) : full(g.b, g.op.outputs[i], 0.0));
  }
  return {concat(g.b, std::move(pieces), g.op.integer("axis"))};
}

void reference(const ir::KernelArgs& args) {
  const std::int64_t axis = axisAttr(args.op, args.op.inputs[0].shape);
  const std::size_t size = byteSize(args.op.inputs[0].dtype);
  const auto* in = static_cast<const std::byte*>(args.inputs[0]);
  for (std::int64_t o = 0; o < aroundAxis(args.op.inputs[0].shape, axis).outer; ++o) {
    for (std::size_t i = 0; i < args.outputs.size(); ++i) {
      const AxisView view = aroundAxis(args.op.outputs[i].shape, axis);
      const std::size_t run = static_cast<std::size_t>(view.extent * view.inner) * size;
      if (run != 0) {
        auto* out = static_cast<std::byte*>(args.outputs[i]);
        std::memcpy(out + static_cast<std::size_t>(o) * run, in, run);
        in += run;
      }
    }
  }
}

constexpr ir::OnnxName kOnnx[] = {{"Split", 2}, {"Split", 11}};

}  // namespace

constinit const ir::OpDef kSplit{.name = "split",
                                 .outputs = ir::kVariadic,
                                 .attrs = kAttrs,
                                 .infer = infer,
                                 .grad = grad,
                                 .reference = reference,
                                 .onnx = kOnnx};

std::vector<Value> split(GraphBuilder& b,
                         Value x,
                         std::int64_t axis,
                         std::vector<std::int64_t> sizes) {
  return b.addMany(kSplit, {x}, {{"axis", axis}, {"sizes", std::move(sizes)}});
}

}  // namespace sluice::ops
