#include "sluice/ops/random.h"

#include <limits>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {

void requireOrdinal(const ir::OpView& op) {
  const std::int64_t ordinal = op.integer("ordinal");
  if (ordinal < 0 || ordinal > std::numeric_limits<std::uint32_t>::max()) {
    raise<InvalidArgument>(
        "{}: ordinal {} is not in the range of 32 bits without sign", op.def.name, ordinal);
  }
}

RandomStream randomStream(const ir::KernelArgs& args) {
  return {args.run.seed,
          static_cast<std::uint32_t>(args.op.integer("ordinal")),
          static_cast<std::uint32_t>(args.run.microBatch)};
}

TensorType randomType(const ir::OpView& op) {
  requireOrdinal(op);
  const DType dtype = dtypeAttr(op);
  if (!isFloat(dtype)) {
    raise<InvalidArgument>("{}: dtype must be a float type, got {}", op.def.name, name(dtype));
  }
  return {dtype, Shape(op.attrs.integers("shape"))};
}

ir::Cost costOfRandom(const ir::OpView& op) {
  constexpr double kFlopsPerElement = 16;
  ir::Cost cost{.flops = kFlopsPerElement * static_cast<double>(op.outputs[0].shape.elements()),
                .bytesWritten = static_cast<double>(op.outputs[0].bytes())};
  for (const TensorType& type : op.inputs) {
    cost.bytesRead += static_cast<double>(type.bytes());
  }
  return cost;
}

}  // namespace sluice::ops
