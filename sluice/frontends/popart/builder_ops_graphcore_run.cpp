// AiGraphcore: ops that do something besides computing, and graphs in graphs.
#include "sluice/base/error.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/ops/vendor.h"

namespace sluice {
void AiGraphcore::abort(const TensorId& condition) {
  b_.makeMany("Abort", [&]() -> std::vector<ir::Value> {
    if (condition.empty()) {
      ops::abort(b_.b_);
    } else {
      ops::abort(b_.b_, b_.value(condition));
    }
    return {};
  });
}

TensorId AiGraphcore::printtensor(const TensorId& x, const ops::PrintOptions& options) {
  return b_.make("PrintTensor", [&] { return ops::printTensor(b_.b_, b_.value(x), options); });
}

TensorId AiGraphcore::hostload(const TensorType& type, const std::string& stream) {
  return b_.addInputTensor(type, stream);
}

void AiGraphcore::hoststore(const TensorId& x, const std::string& stream) {
  const ir::Value value = b_.value(x);
  const TensorId id = b_.nameFor(stream, "stream");
  b_.graph_.addOutput(id, value);
  b_.tensors_[id] = {value, {value.op}};
}

TensorId AiGraphcore::remoteload(const ops::RemoteBuffer& buffer,
                                 const TensorType& type,
                                 const TensorId& offset) {
  return b_.make("RemoteLoad", [&] {
    return ops::remoteLoad(b_.b_, buffer, type, offset.empty() ? ir::Value() : b_.value(offset));
  });
}

void AiGraphcore::remotestore(const ops::RemoteBuffer& buffer,
                              const TensorId& x,
                              const TensorId& offset) {
  b_.makeMany("RemoteStore", [&]() -> std::vector<ir::Value> {
    ops::remoteStore(b_.b_, buffer, b_.value(x), offset.empty() ? ir::Value() : b_.value(offset));
    return {};
  });
}

TensorId AiGraphcore::replicatedallreduce(const TensorId& x,
                                          CollectiveOperator op,
                                          std::int64_t replicas) {
  return one("ReplicatedAllReduce",
             {x},
             {{"__collectiveOperator", static_cast<std::int64_t>(op)}, {"replicas", replicas}});
}

TensorId AiGraphcore::replicatedallgather(const TensorId& x, std::int64_t replicas) {
  return one("ReplicatedAllGather", {x}, {{"replicas", replicas}});
}

TensorId AiGraphcore::replicatedreducescatter(const TensorId& x,
                                              std::int64_t replicas,
                                              CollectiveOperator op) {
  return one("ReplicatedReduceScatter",
             {x},
             {{"__collectiveOperator", static_cast<std::int64_t>(op)}, {"replicas", replicas}});
}

AiGraphcore::Ids AiGraphcore::call(const Ids& inputs, const Builder& callee) {
  const std::vector<ir::OpId> wanted = callee.graph().inputs();
  if (wanted.size() != inputs.size()) {
    raise<InvalidArgument>("Call: graph '{}' has {} inputs, got {}",
                           callee.graph().name(),
                           wanted.size(),
                           inputs.size());
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const ir::Op& input = callee.graph().op(wanted[i]);
    const TensorType& given = b_.graph().type(b_.value(inputs[i]));
    if (given != input.outputs[0]) {
      raise<InvalidArgument>("Call: input '{}' of graph '{}' is {}, got {}",
                             input.name,
                             callee.graph().name(),
                             input.outputs[0].str(),
                             given.str());
    }
  }
  return b_.op({.op = "Call",
                .inputs = {inputs.begin(), inputs.end()},
                .outputs = callee.graph().outputs().size(),
                .domain = ops::kVendorDomain,
                .bodies = {{"callee", &callee.graph()}}});
}

TensorId AiGraphcore::packeddatablock(const Ids& operands,
                                      const PackedDataBlockOptions& options,
                                      const Builder& callback) {
  return b_.op({.op = "PackedDataBlock",
                .inputs = {operands.begin(), operands.end()},
                .attrs = {{"maxSequenceLengths", options.maxSequenceLengths},
                          {"resultSize", options.resultSize},
                          {"callbackBatchSize", options.callbackBatchSize}},
                .domain = ops::kVendorDomain,
                .bodies = {{"callback", &callback.graph()}}})[0];
}

}  // namespace sluice
