// replica_gather: the parts that all replicas keep of a tensor, behind each other, in `shape`. No
// kernel runs it: it becomes a task that reads the memory of every replica. The reference is that
// of one replica, which has all. Every replica reads the part of each, so its gradient is the sum
// of what they all say of it.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "shape", .kind = ir::AttrKind::Ints, .required = true},
     {.name = "replicas", .kind = ir::AttrKind::Int}}};  // 0: as many as there are

std::vector<TensorType> infer(const ir::OpView& op) {
  const std::vector<std::int64_t>& extents = op.attrs.integers("shape");
  const Shape whole{std::vector<std::int64_t>(extents)};
  const Shape& part = op.inputs[0].shape;
  const std::int64_t replicas = op.integer("replicas");
  const bool fits = part.rank() == 1 && part[0] <= whole.elements() && replicas >= 0 &&
                    (replicas == 0 || part[0] == ir::partOf(whole.elements(), replicas));
  if (!fits) {
    raise<InvalidArgument>("replica_gather: expected a vector that is a part of {}{}, got {}",
                           whole.str(),
                           replicas == 0 ? "" : fmt::format(" over {} replicas", replicas),
                           part.str());
  }
  return {{op.inputs[0].dtype, whole}};
}

std::vector<Value> grad(ir::GradContext& g) {
  const std::int64_t replicas = g.op.integer("replicas");
  const std::int64_t part = std::max<std::int64_t>(g.op.inputs[0].shape[0], 1);
  return {replicaSumScatter(
      g.b, g.grad(), replicas > 0 ? replicas : ir::partOf(g.op.outputs[0].shape.elements(), part))};
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
                                         .grad = grad,
                                         .reference = reference,
                                         .traits = {.once = true}};

Value replicaGather(GraphBuilder& b, Value part, const Shape& shape, std::int64_t replicas) {
  return b.add(kReplicaGather,
               {part},
               {{"shape", std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end())},
                {"replicas", replicas}});
}

}  // namespace sluice::ops
