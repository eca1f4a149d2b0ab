// replica_sum_scatter: the part of a replica of the sum of x over all replicas, in replica order:
// what replica_scatter takes of replica_sum, without the rest. No kernel runs it: it becomes a task
// that reads the memory of every replica. The reference is that of one replica.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "replicas", .kind = ir::AttrKind::Int, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  return kReplicaScatter.infer(op);
}

void reference(const ir::KernelArgs& args) {
  SLUICE_CHECK(args.op.inputs[0].bytes() == args.op.outputs[0].bytes(),
               "replica_sum_scatter of one replica");
  copyBytes(args);
}

}  // namespace

constinit const ir::OpDef kReplicaSumScatter{.name = "replica_sum_scatter",
                                             .attrs = kAttrs,
                                             .infer = infer,
                                             .reference = reference,
                                             .traits = {.once = true}};

}  // namespace sluice::ops
