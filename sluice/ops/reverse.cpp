// reverse: the elements of some axes in opposite order; no axes given: of all.
#include <array>

#include "sluice/ops/layout.h"
#include "sluice/ops/reduce.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{{.name = "axes", .kind = ir::AttrKind::Ints}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  reducedAxes(op);  // checks them
  return {op.inputs[0]};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {reverse(g.b, g.grad(), g.op.attrs.integers("axes"))};
}

void reference(const ir::KernelArgs& args) {
  const std::vector<bool> reversed = reducedAxes(args.op);
  std::vector<std::vector<std::int64_t>> coordinates;
  for (std::size_t axis = 0; axis < reversed.size(); ++axis) {
    const std::int64_t extent = args.op.inputs[0].shape.dims()[axis];
    std::vector<std::int64_t>& list = coordinates.emplace_back();
    for (std::int64_t i = 0; i < extent; ++i) {
      list.push_back(reversed[axis] ? extent - 1 - i : i);
    }
  }
  copyMapped(args, AxisMap(args.op.inputs[0].shape, std::move(coordinates)));
}

}  // namespace

constinit const ir::OpDef kReverse{
    .name = "reverse", .attrs = kAttrs, .infer = infer, .grad = grad, .reference = reference};

Value reverse(GraphBuilder& b, Value x, std::vector<std::int64_t> axes) {
  return b.add(kReverse, {x}, {{"axes", std::move(axes)}});
}

}  // namespace sluice::ops
