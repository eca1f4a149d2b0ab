// replica_gather: the parts that all replicas keep of a tensor, behind each other, in `shape`. No
// kernel runs it: it becomes a task that reads the memory of every replica. The reference is that
// of one replica, which has all.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "shape", .kind = ir::AttrKind::Ints, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  const std::vector<std::int64_t>& extents = op.attrs.integers("shape");
  const Shape whole{std::vector<std::int64_t>(extents)};
  if (op.inputs[0].shape.rank() != 1 || op.inputs[0].shape[0] > whole.elements()) {
    raise<InvalidArgument>("replica_gather: expected a vector that is a part of {}, got {}",
                           whole.str(),
                           op.inputs[0].shape.str());
  }
  return {{op.inputs[0].dtype, whole}};
}

void reference(const ir::KernelArgs& args) {
  SLUICE_CHECK(args.op.inputs[0].bytes() == args.op.outputs[0].bytes(),
               "replica_gather of one replica");
  copyBytes(args);
}

}  // namespace

constinit const ir::OpDef kReplicaGather{.name = "replica_gather",
                                         .attrs = kAttrs,
                                         .infer = infer,
                                         .reference = reference,
                                         .traits = {.once = true}};

Value replicaGather(GraphBuilder& b, Value part, const Shape& shape) {
  return b.add(kReplicaGather,
               {part},
               {{"shape", std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end())}});
}

}  // namespace sluice::ops
