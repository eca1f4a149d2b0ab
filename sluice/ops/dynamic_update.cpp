// dynamic_update: x with a block replaced, at offsets that an operand holds, one for each of
// `axes`. The block must lie inside of x.
#include <array>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/ops/dynamic_block.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "axes", .kind = ir::AttrKind::Ints, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  const TensorType& whole = op.inputs[0];
  const TensorType& block = op.inputs[2];
  checkDynamicAxes(op, whole.shape);
  std::vector<bool> cut(whole.shape.dims().size(), false);
  for (const std::int64_t axis : op.attrs.integers("axes")) {
    cut[static_cast<std::size_t>(normalizeAxis(axis, whole.shape.rank()))] = true;
  }
  bool fits = block.dtype == whole.dtype && block.shape.rank() == whole.shape.rank();
  for (std::int64_t i = 0; fits && i < whole.shape.rank(); ++i) {
    fits = cut[static_cast<std::size_t>(i)] ? block.shape[i] <= whole.shape[i]
                                            : block.shape[i] == whole.shape[i];
  }
  if (!fits) {
    raise<InvalidArgument>("dynamic_update: a block {} does not fit {}", block.str(), whole.str());
  }
  return {whole};
}

std::vector<Value> grad(ir::GradContext& g) {
  const std::vector<std::int64_t>& axes = g.op.attrs.integers("axes");
  const TensorType& block = g.op.inputs[2];
  std::vector<Value> grads(3);
  if (g.needs(0)) {
    grads[0] = dynamicUpdate(g.b, g.grad(), g.input(1), full(g.b, block, 0.0), axes);
  }
  if (g.needs(2)) {
    std::vector<std::int64_t> sizes;
    sizes.reserve(axes.size());
    for (const std::int64_t axis : axes) {
      sizes.push_back(block.shape[normalizeAxis(axis, block.shape.rank())]);
    }
    grads[2] = dynamicSlice(g.b, g.grad(), g.input(1), axes, std::move(sizes));
  }
  return grads;
}

void reference(const ir::KernelArgs& args) {
  const std::size_t size = byteSize(args.op.inputs[0].dtype);
  const auto* block = static_cast<const std::byte*>(args.inputs[2]);
  auto* out = static_cast<std::byte*>(args.outputs[0]);
  if (args.op.outputs[0].bytes() != 0) {
    std::memcpy(out, args.inputs[0], args.op.outputs[0].bytes());
  }
  forEachBlockRun(args,
                  args.op.inputs[0].shape,
                  args.op.inputs[2].shape,
                  [&](std::int64_t to, std::int64_t from, std::int64_t length) {
                    std::memcpy(out + static_cast<std::size_t>(to) * size,
                                block + static_cast<std::size_t>(from) * size,
                                static_cast<std::size_t>(length) * size);
                  });
}

}  // namespace

constinit const ir::OpDef kDynamicUpdate{.name = "dynamic_update",
                                         .minInputs = 3,
                                         .maxInputs = 3,
                                         .attrs = kAttrs,
                                         .infer = infer,
                                         .grad = grad,
                                         .gradReads = {.inputs = 0b10},
                                         .reference = reference};

Value dynamicUpdate(
    GraphBuilder& b, Value x, Value offsets, Value update, std::vector<std::int64_t> axes) {
  return b.add(kDynamicUpdate, {x, offsets, update}, {{"axes", std::move(axes)}});
}

}  // namespace sluice::ops
