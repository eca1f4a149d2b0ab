// not_equal: x != y with broadcasting, as bool. NaN differs from everything.
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

void reference(const ir::KernelArgs& args) {
  referenceBinary(args, [](auto x, auto y) { return x != y; });
}

}  // namespace

constinit const ir::OpDef kNotEqual{.name = "not_equal",
                                    .minInputs = 2,
                                    .maxInputs = 2,
                                    .infer = inferCompare<Accepts::Any>,
                                    .reference = reference,
                                    .traits = kElementwiseCommutative};

Value notEqual(GraphBuilder& b, Value x, Value y) {
  return b.add(kNotEqual, {x, y});
}

}  // namespace sluice::ops
