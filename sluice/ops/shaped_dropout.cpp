// shaped_dropout: x times a dropout mask of a shape that is broadcast to x, so that features that
// belong together are dropped together.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/ops.h"
#include "sluice/ops/random.h"
#include "sluice/ops/vendor.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 3> kAttrs = {
    {{.name = "shape", .kind = ir::AttrKind::Ints, .required = true},
     {.name = "ratio", .kind = ir::AttrKind::Real, .real = 0.5},
     {.name = "ordinal", .kind = ir::AttrKind::Int, .required = true}}};

/// Whether broadcasting stretches `mask` to `shape` and nothing else.
bool spreadsTo(const Shape& mask, const Shape& shape) {
  const std::int64_t missing = shape.rank() - mask.rank();
  for (std::int64_t i = 0; i < mask.rank() && missing >= 0; ++i) {
    if (mask[i] != 1 && mask[i] != shape[missing + i]) {
      return false;
    }
  }
  return missing >= 0;
}

std::vector<TensorType> infer(const ir::OpView& op) {
  requireOrdinal(op);
  const double ratio = op.attrs.real("ratio");
  if (!(ratio >= 0.0 && ratio < 1.0)) {
    raise<InvalidArgument>("shaped_dropout: the ratio must be in [0, 1), got {}", ratio);
  }
  const Shape mask(op.attrs.integers("shape"));
  if (!spreadsTo(mask, op.inputs[0].shape)) {
    raise<InvalidArgument>("shaped_dropout: a mask of shape {} cannot be broadcast to {}",
                           mask.str(),
                           op.inputs[0].str());
  }
  return inferUnary<Accepts::Floating>(op);
}

std::vector<Value> decompose(GraphBuilder& b, const ir::OpView& op, std::span<const Value> inputs) {
  const Value ones = full(b, {op.inputs[0].dtype, Shape(op.attrs.integers("shape"))}, 1.0);
  const Value mask =
      b.add(kDropout, {ones}, {{"p", op.attrs.real("ratio")}, {"ordinal", op.integer("ordinal")}});
  return {mul(b, inputs[0], mask)};
}

}  // namespace

constinit const ir::OpDef kShapedDropout{.name = "shaped_dropout",
                                         .attrs = kAttrs,
                                         .infer = infer,
                                         .decompose = decompose,
                                         .traits = {.random = true}};

Value shapedDropout(GraphBuilder& b, Value x, const Shape& shape, double ratio) {
  return b.add(kShapedDropout,
               {x},
               {{"shape", shape.dims()}, {"ratio", ratio}, {"ordinal", b.nextRandomOrdinal()}});
}

}  // namespace sluice::ops
