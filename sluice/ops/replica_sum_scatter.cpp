// replica_sum_scatter: the part of a replica of the sum of x over all replicas, in replica order:
// what replica_scatter takes of replica_sum, without the rest. No kernel runs it: it becomes a task
// that reads the memory of every replica. The reference is that of one replica. The gradient is
// that of all parts together, for every replica's x was added to each.
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

std::vector<Value> grad(ir::GradContext& g) {
  return {replicaGather(g.b, g.grad(), g.op.inputs[0].shape, g.op.integer("replicas"))};
}

void reference(const ir::KernelArgs& args) {
  SLUICE_CHECK(args.op.inputs[0].bytes() == args.op.outputs[0].bytes(),
               "replica_sum_scatter of one replica");
  copyBytes(args);
}

constexpr ir::OnnxName kOnnx[] = {{"ReplicatedReduceScatter", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kReplicaSumScatter{.name = "replica_sum_scatter",
                                             .attrs = kAttrs,
                                             .infer = infer,
                                             .grad = grad,
                                             .reference = reference,
                                             .traits = {.once = true},
                                             .onnx = kOnnx};

Value replicaSumScatter(GraphBuilder& b, Value x, std::int64_t replicas) {
  return b.add(kReplicaSumScatter, {x}, {{"replicas", replicas}});
}

}  // namespace sluice::ops
