// replica_sum: the sum of x over all replicas, in replica order (rule R8). No kernel runs it: it
// becomes a task that reads the memory of every replica. The reference is that of one replica.
#include "sluice/ops/elementwise.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

void reference(const ir::KernelArgs& args) {
  copyBytes(args);
}

}  // namespace

constinit const ir::OpDef kReplicaSum{.name = "replica_sum",
                                      .infer = inferUnary<Accepts::Floating>,
                                      .reference = reference,
                                      .traits = {.once = true}};

bool crossesReplicas(const ir::OpDef& def) {
  return &def == &kReplicaSum || &def == &kReplicaGather || &def == &kReplicaSumScatter;
}

Value replicaSum(GraphBuilder& b, Value x) {
  return b.add(kReplicaSum, {x});
}

}  // namespace sluice::ops
