// branch: one of two bodies, chosen when the op runs. Both take the same operands and return the
// same types. Its gradient is a branch of gradients (transforms/branch_gradient.cpp).
#include <array>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/ops/body.h"
#include "sluice/ops/control_ops.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "else", .kind = ir::AttrKind::Subgraph, .required = true},
     {.name = "then", .kind = ir::AttrKind::Subgraph, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  if (op.inputs[0] != TensorType{DType::Bool, Shape{}}) {
    raise<InvalidArgument>("branch: the condition must be bool[], got {}", op.inputs[0].str());
  }
  const auto operands = op.inputs.subspan(1);
  std::vector<TensorType> yes = checkBody("branch", op.attrs.subgraph("then"), operands);
  const std::vector<TensorType> no = checkBody("branch", op.attrs.subgraph("else"), operands);
  if (yes.size() != no.size() || yes.empty()) {
    raise<InvalidArgument>(
        "branch: the bodies must return equally many values, at least one, got {} and {}",
        yes.size(),
        no.size());
  }
  for (std::size_t i = 0; i < yes.size(); ++i) {
    if (yes[i] != no[i]) {
      raise<InvalidArgument>(
          "branch: result {} is {} in one body and {} in the other", i, yes[i].str(), no[i].str());
    }
  }
  return yes;
}

/// That of the more expensive body.
ir::Cost cost(const ir::OpView& op) {
  const ir::Cost yes = costOfBody(op.attrs.subgraph("then"));
  const ir::Cost no = costOfBody(op.attrs.subgraph("else"));
  const auto weight = [](const ir::Cost& c) { return c.flops + c.bytesRead + c.bytesWritten; };
  return weight(yes) < weight(no) ? no : yes;
}

void reference(const ir::KernelArgs& args) {
  std::vector<HostTensor> operands;
  for (std::size_t i = 1; i < args.inputs.size(); ++i) {
    HostTensor tensor(args.op.inputs[i]);
    if (tensor.byteCount() > 0) {
      std::memcpy(tensor.bytes(), args.inputs[i], tensor.byteCount());
    }
    operands.push_back(std::move(tensor));
  }
  const std::string_view chosen = args.in<bool>(0)[0] ? "then" : "else";
  const std::vector<HostTensor> results =
      evaluateBody(args.op.attrs.subgraph(chosen), operands, args.run);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].byteCount() > 0) {
      std::memcpy(args.outputs[i], results[i].bytes(), results[i].byteCount());
    }
  }
}

/// Both bodies, and a selection.
std::vector<Value> decompose(GraphBuilder& b,
                             const ir::OpView& op,
                             std::span<const Value> operands) {
  const std::vector<Value> yes = inlineBody(b, op.attrs.subgraph("then"), operands.subspan(1));
  const std::vector<Value> no = inlineBody(b, op.attrs.subgraph("else"), operands.subspan(1));
  std::vector<Value> results;
  for (std::size_t i = 0; i < yes.size(); ++i) {
    results.push_back(where(b, operands[0], yes[i], no[i]));
  }
  return results;
}

}  // namespace

constinit const ir::OpDef kBranch{.name = "branch",
                                  .minInputs = 1,
                                  .maxInputs = ir::kVariadic,
                                  .outputs = ir::kVariadic,
                                  .attrs = kAttrs,
                                  .infer = infer,
                                  .cost = cost,
                                  .reference = reference,
                                  .decompose = decompose};

std::vector<Value> branch(GraphBuilder& b,
                          Value condition,
                          std::vector<Value> operands,
                          ir::GraphRef thenBody,
                          ir::GraphRef elseBody) {
  operands.insert(operands.begin(), condition);
  return b.addMany(
      kBranch, std::move(operands), {{"else", std::move(elseBody)}, {"then", std::move(thenBody)}});
}

}  // namespace sluice::ops
