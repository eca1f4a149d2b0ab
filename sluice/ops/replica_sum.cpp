// replica_sum: the sum of x over all replicas, in replica order (rule R8). No kernel runs it: it
// becomes a task that reads the memory of every replica. The reference is that of one replica. What
// is minimised is the sum or mean of what all replicas return, and each of them reads the x of all:
// the gradient is the sum of theirs.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "replicas", .kind = ir::AttrKind::Int}}};  // 0: as many as there are

std::vector<TensorType> infer(const ir::OpView& op) {
  if (op.integer("replicas") < 0) {
    raise<InvalidArgument>("replica_sum: expected at least 1 replica, got {}",
                           op.integer("replicas"));
  }
  return inferUnary<Accepts::Floating>(op);
}

std::vector<Value> grad(ir::GradContext& g) {
  return {replicaSum(g.b, g.grad(), g.op.integer("replicas"))};
}

void reference(const ir::KernelArgs& args) {
  copyBytes(args);
}

constexpr ir::OnnxName kOnnx[] = {{"ReplicatedAllReduce", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kReplicaSum{.name = "replica_sum",
                                      .attrs = kAttrs,
                                      .infer = infer,
                                      .grad = grad,
                                      .reference = reference,
                                      .traits = {.once = true},
                                      .onnx = kOnnx};

bool crossesReplicas(const ir::OpDef& def) {
  return &def == &kReplicaSum || &def == &kReplicaGather || &def == &kReplicaSumScatter;
}

Value replicaSum(GraphBuilder& b, Value x, std::int64_t replicas) {
  return b.add(kReplicaSum, {x}, {{"replicas", replicas}});
}

}  // namespace sluice::ops
