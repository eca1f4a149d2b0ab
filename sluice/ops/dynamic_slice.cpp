// dynamic_slice: the block of given sizes at offsets that an operand holds, one for each of `axes`;
// all other axes are taken whole. The block must lie inside of the tensor.
#include <array>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/ops/dynamic_block.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "axes", .kind = ir::AttrKind::Ints, .required = true},
     {.name = "sizes", .kind = ir::AttrKind::Ints, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  const Shape& whole = op.inputs[0].shape;
  checkDynamicAxes(op, whole);
  const std::vector<std::int64_t>& axes = op.attrs.integers("axes");
  const std::vector<std::int64_t>& sizes = op.attrs.integers("sizes");
  if (sizes.size() != axes.size()) {
    raise<InvalidArgument>(
        "dynamic_slice: expected {} sizes, one for each axis, got {}", axes.size(), sizes.size());
  }
  Shape block = whole;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = normalizeAxis(axes[i], whole.rank());
    if (sizes[i] < 0 || sizes[i] > whole[axis]) {
      raise<InvalidArgument>(
          "dynamic_slice: a block of {} does not fit axis {} of {}", sizes[i], axis, whole.str());
    }
    block = withExtent(block, axis, sizes[i]);
  }
  return {{op.inputs[0].dtype, std::move(block)}};
}

std::vector<Value> grad(ir::GradContext& g) {
  const Value zeros = full(g.b, g.op.inputs[0], 0.0);
  return {dynamicUpdate(g.b, zeros, g.input(1), g.grad(), g.op.attrs.integers("axes")), Value()};
}

void reference(const ir::KernelArgs& args) {
  const std::size_t size = byteSize(args.op.inputs[0].dtype);
  const auto* in = static_cast<const std::byte*>(args.inputs[0]);
  auto* out = static_cast<std::byte*>(args.outputs[0]);
  forEachBlockRun(args,
                  args.op.inputs[0].shape,
                  args.op.outputs[0].shape,
                  [&](std::int64_t from, std::int64_t to, std::int64_t length) {
                    std::memcpy(out + static_cast<std::size_t>(to) * size,
                                in + static_cast<std::size_t>(from) * size,
                                static_cast<std::size_t>(length) * size);
                  });
}

}  // namespace

void checkDynamicAxes(const ir::OpView& op, const Shape& whole) {
  requireIndices(op, 1);
  const std::vector<std::int64_t>& axes = op.attrs.integers("axes");
  std::vector<bool> seen(whole.dims().size(), false);
  for (const std::int64_t axis : axes) {
    const std::int64_t at = axis < 0 ? axis + whole.rank() : axis;
    if (at < 0 || at >= whole.rank() || seen[static_cast<std::size_t>(at)]) {
      raise<InvalidArgument>("{}: axis {} is out of range for shape {} or given twice",
                             op.def.name,
                             axis,
                             whole.str());
    }
    seen[static_cast<std::size_t>(at)] = true;
  }
  if (op.inputs[1].shape.elements() != static_cast<std::int64_t>(axes.size())) {
    raise<InvalidArgument>("{}: expected {} offsets, one for each axis, got {}",
                           op.def.name,
                           axes.size(),
                           op.inputs[1].str());
  }
}

void forEachBlockRun(const ir::KernelArgs& args,
                     const Shape& whole,
                     const Shape& block,
                     FunctionRef<void(std::int64_t, std::int64_t, std::int64_t)> visit) {
  const std::vector<std::int64_t>& axes = args.op.attrs.integers("axes");
  const std::vector<std::int64_t> strides = whole.strides();
  const bool narrowOffsets = args.op.inputs[1].dtype == DType::I32;
  std::int64_t origin = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = normalizeAxis(axes[i], whole.rank());
    const std::int64_t offset =
        narrowOffsets ? args.in<std::int32_t>(1)[i] : args.in<std::int64_t>(1)[i];
    if (offset < 0 || offset > whole[axis] - block[axis]) {
      raise<InvalidArgument>("{}: a block of {} at offset {} does not lie inside axis {} of {}",
                             args.op.def.name,
                             block[axis],
                             offset,
                             axis,
                             whole.str());
    }
    origin += offset * strides[static_cast<std::size_t>(axis)];
  }
  if (block.elements() == 0) {
    return;
  }
  // The last axis that is cut ends a run; all behind it are whole.
  std::int64_t last = whole.rank() - 1;
  while (last > 0 && block[last] == whole[last]) {
    --last;
  }
  const std::int64_t run =
      whole.rank() == 0 ? 1 : block[last] * strides[static_cast<std::size_t>(last)];
  for (std::int64_t to = 0; to < block.elements(); to += run) {
    std::int64_t from = origin;
    std::int64_t rest = to / run;
    for (std::int64_t axis = last - 1; axis >= 0; --axis) {
      from += rest % block[axis] * strides[static_cast<std::size_t>(axis)];
      rest /= block[axis];
    }
    visit(from, to, run);
  }
}

constinit const ir::OpDef kDynamicSlice{.name = "dynamic_slice",
                                        .minInputs = 2,
                                        .maxInputs = 2,
                                        .attrs = kAttrs,
                                        .infer = infer,
                                        .grad = grad,
                                        .gradReads = {.inputs = 0b10},
                                        .cost = costOfMove,
                                        .reference = reference};

Value dynamicSlice(GraphBuilder& b,
                   Value x,
                   Value offsets,
                   std::vector<std::int64_t> axes,
                   std::vector<std::int64_t> sizes) {
  return b.add(
      kDynamicSlice, {x, offsets}, {{"axes", std::move(axes)}, {"sizes", std::move(sizes)}});
}

}  // namespace sluice::ops
