// bit_shift: the bits of the integer x moved by y places to the left or right, with broadcasting.
#include <array>
#include <type_traits>

#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "direction", .kind = ir::AttrKind::Text, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireOneOf(op, "direction", {"LEFT", "RIGHT"});
  return inferBroadcast(op, Accepts::Integer);
}

void reference(const ir::KernelArgs& args) {
  const bool left = args.op.attrs.text("direction") == "LEFT";
  referenceBinary(args, [left](auto x, auto y) {
    if constexpr (std::is_integral_v<decltype(x)> && !std::is_same_v<decltype(x), bool>) {
      return left ? shiftedLeft(x, y) : shiftedRight(x, y);
    } else {
      return x;
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"BitShift", 11}};

}  // namespace

constinit const ir::OpDef kBitShift{.name = "bit_shift",
                                    .minInputs = 2,
                                    .maxInputs = 2,
                                    .attrs = kAttrs,
                                    .infer = infer,
                                    .reference = reference,
                                    .traits = kElementwise,
                                    .onnx = kOnnx};

Value bitShift(GraphBuilder& b, Value x, Value y, std::string_view direction) {
  return b.add(kBitShift, {x, y}, {{"direction", direction}});
}

}  // namespace sluice::ops
