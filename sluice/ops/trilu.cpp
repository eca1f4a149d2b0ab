// trilu: the upper (column - row >= diagonal) or lower (column - row <= diagonal) triangle of the
// last two axes; the rest is zero.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "upper", .kind = ir::AttrKind::Bool, .integer = 1},
     {.name = "diagonal", .kind = ir::AttrKind::Int}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  if (op.inputs[0].shape.rank() < 2) {
    raise<InvalidArgument>("trilu: the input must have at least two axes, got {}",
                           op.inputs[0].str());
  }
  return {op.inputs[0]};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {trilu(g.b, g.grad(), g.op.attrs.flag("upper"), g.op.integer("diagonal"))};
}

void reference(const ir::KernelArgs& args) {
  const Shape& shape = args.op.inputs[0].shape;
  const std::int64_t rows = shape[shape.rank() - 2];
  const std::int64_t columns = shape[shape.rank() - 1];
  const std::int64_t diagonal = args.op.integer("diagonal");
  const bool upper = args.op.attrs.flag("upper");
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto in = args.in<T>(0);
    const auto out = args.out<T>(0);
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      const std::int64_t offset = i % columns - i / columns % rows;
      const bool kept = upper ? offset >= diagonal : offset <= diagonal;
      out[static_cast<std::size_t>(i)] = kept ? in[static_cast<std::size_t>(i)] : T{};
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Trilu", 14}};

}  // namespace

constinit const ir::OpDef kTrilu{.name = "trilu",
                                 .attrs = kAttrs,
                                 .infer = infer,
                                 .grad = grad,
                                 .reference = reference,
                                 .onnx = kOnnx};

Value trilu(GraphBuilder& b, Value x, bool upper, std::int64_t diagonal) {
  return b.add(kTrilu, {x}, {{"upper", upper}, {"diagonal", diagonal}});
}

}  // namespace sluice::ops
