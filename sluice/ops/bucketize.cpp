// bucketize: per element how many of the boundaries, sorted in ascending order, lie below it; with
// `right` those that equal it count too. NaN lies above all.
#include <algorithm>
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/indexing_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{{.name = "right", .kind = ir::AttrKind::Bool}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Numeric);
  requireSameDType(op);
  if (op.inputs[1].shape.rank() != 1) {
    raise<InvalidArgument>("bucketize: boundaries must have one axis, got {}", op.inputs[1].str());
  }
  return {{DType::I64, op.inputs[0].shape}};
}

void reference(const ir::KernelArgs& args) {
  const bool right = args.op.attrs.flag("right");
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto boundaries = args.in<T>(1);
    const auto in = args.in<T>(0);
    const auto out = args.out<std::int64_t>(0);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto x = widen(in[i]);
      const auto first = std::partition_point(boundaries.begin(), boundaries.end(), [&](T bound) {
        const auto y = widen(bound);
        return notANumber(x) || (right ? y <= x : y < x);
      });
      out[i] = first - boundaries.begin();
    }
  });
}

}  // namespace

constinit const ir::OpDef kBucketize{.name = "bucketize",
                                     .minInputs = 2,
                                     .maxInputs = 2,
                                     .attrs = kAttrs,
                                     .infer = infer,
                                     .cost = costPerInput<8>,
                                     .reference = reference};

Value bucketize(GraphBuilder& b, Value x, Value boundaries, bool right) {
  return b.add(kBucketize, {x, boundaries}, {{"right", right}});
}

}  // namespace sluice::ops
