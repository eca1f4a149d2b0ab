// replica_scatter: of a tensor that all replicas have, the part of the replica that runs it: one of
// `replicas` equal runs of elements, the last ones padded with zeros.
#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "replicas", .kind = ir::AttrKind::Int, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  const std::int64_t replicas = op.attrs.integer("replicas");
  if (replicas < 1) {
    raise<InvalidArgument>("{}: expected at least 1 replica, got {}", op.def.name, replicas);
  }
  return {{op.inputs[0].dtype, Shape{ir::partOf(op.inputs[0].shape.elements(), replicas)}}};
}

void reference(const ir::KernelArgs& args) {
  const TensorType& part = args.op.outputs[0];
  const std::size_t size = byteSize(part.dtype);
  const std::int64_t length = part.shape.elements();
  const std::int64_t begin = args.run.replica * length;
  const std::int64_t count =
      std::clamp(args.op.inputs[0].shape.elements() - begin, std::int64_t{0}, length);
  const std::size_t bytes = static_cast<std::size_t>(count) * size;
  auto* out = static_cast<std::byte*>(args.outputs[0]);
  if (bytes > 0) {
    std::memcpy(
        out,
        static_cast<const std::byte*>(args.inputs[0]) + static_cast<std::size_t>(begin) * size,
        bytes);
  }
  std::fill(out + bytes, out + part.bytes(), std::byte{0});
}

}  // namespace

constinit const ir::OpDef kReplicaScatter{.name = "replica_scatter",
                                          .attrs = kAttrs,
                                          .infer = infer,
                                          .reference = reference,
                                          .traits = {.once = true}};

Value replicaScatter(GraphBuilder& b, Value x, std::int64_t replicas) {
  return b.add(kReplicaScatter, {x}, {{"replicas", replicas}});
}

}  // namespace sluice::ops
