// cast_then_pow2_scale: 8-bit floats, as u8, in another float type and times a power of two. The
// scaling is exact unless the result leaves the range of its type.
#include <array>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/float8.h"
#include "sluice/ops/vendor.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "format", .kind = ir::AttrKind::Text, .text = "f143"},
     {.name = "dtype", .kind = ir::AttrKind::Text, .text = "f32"}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireLog2Scale(op);
  static_cast<void>(float8FormatOf(op));
  const DType dtype = dtypeAttr(op);
  if (op.inputs[0].dtype != DType::U8 || !isFloat(dtype)) {
    raise<InvalidArgument>("cast_then_pow2_scale: expected u8 to a float type, got {} to {}",
                           op.inputs[0].str(),
                           name(dtype));
  }
  return {{dtype, op.inputs[0].shape}};
}

void reference(const ir::KernelArgs& args) {
  const int scale = log2ScaleOf(args);
  // There are only so many of them.
  std::array<double, 256> values{};
  for (std::size_t bits = 0; bits < values.size(); ++bits) {
    values[bits] =
        std::ldexp(fromFloat8(static_cast<std::uint8_t>(bits), float8FormatOf(args.op)), scale);
  }
  const auto in = args.in<std::uint8_t>(0);
  dispatch(args.op.outputs[0].dtype, [&]<class T>(T) {
    const auto out = args.out<T>(0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = narrow<T>(values[in[i]]);
    }
  });
}

}  // namespace

constinit const ir::OpDef kCastThenPow2Scale{.name = "cast_then_pow2_scale",
                                             .minInputs = 2,
                                             .maxInputs = 2,
                                             .attrs = kAttrs,
                                             .infer = infer,
                                             .cost = costPerInput<2>,
                                             .reference = reference};

Value castThenPow2Scale(
    GraphBuilder& b, Value x, Value log2Scale, DType dtype, std::string_view format) {
  return b.add(kCastThenPow2Scale, {x, log2Scale}, {{"format", format}, {"dtype", name(dtype)}});
}

}  // namespace sluice::ops
