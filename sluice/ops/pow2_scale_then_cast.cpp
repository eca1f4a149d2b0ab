// pow2_scale_then_cast: x times a power of two, rounded to an 8-bit float, as u8. No gradient
// passes.
#include <array>
#include <cmath>

#include "sluice/ops/cost.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/float8.h"
#include "sluice/ops/vendor.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "format", .kind = ir::AttrKind::Text, .text = "f143"},
     {.name = "nanOnOverflow", .kind = ir::AttrKind::Bool}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  requireLog2Scale(op);
  static_cast<void>(float8FormatOf(op));
  return {{DType::U8, op.inputs[0].shape}};
}

void reference(const ir::KernelArgs& args) {
  const Float8Format& format = float8FormatOf(args.op);
  const Overflow overflow = args.op.attrs.flag("nanOnOverflow") ? Overflow::NaN : Overflow::Clip;
  const int scale = log2ScaleOf(args);
  const auto out = args.out<std::uint8_t>(0);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto in = args.in<T>(0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = toFloat8(std::ldexp(static_cast<double>(widen(in[i])), scale), format, overflow);
    }
  });
}

}  // namespace

constinit const ir::OpDef kPow2ScaleThenCast{.name = "pow2_scale_then_cast",
                                             .minInputs = 2,
                                             .maxInputs = 2,
                                             .attrs = kAttrs,
                                             .infer = infer,
                                             .cost = costPerInput<8>,
                                             .reference = reference};

Value pow2ScaleThenCast(
    GraphBuilder& b, Value x, Value log2Scale, std::string_view format, bool nanOnOverflow) {
  return b.add(
      kPow2ScaleThenCast, {x, log2Scale}, {{"format", format}, {"nanOnOverflow", nanOnOverflow}});
}

}  // namespace sluice::ops
