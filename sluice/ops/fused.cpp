// fused: several element-wise ops as one, by its `body`, a graph whose inputs in0, in1 ... are the
// operands and whose outputs out0, out1 ... are the results. The body may begin with one anchor
// (matmul, conv ...). Every result inside has one shape, so a kernel needs a single loop; every
// intermediate is rounded to its declared type, so the bits are those of the ops one by one (R5).
#include "sluice/ops/fused.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/ops/body.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "body", .kind = ir::AttrKind::Subgraph, .required = true}}};

constexpr std::array<std::string_view, 4> kAnchors = {
    "conv", "conv_grad_input", "conv_grad_weight", "matmul"};

void checkOperands(const ir::OpView& op, const ir::Graph& body) {
  const std::vector<ir::OpId> inputs = body.inputs();
  if (inputs.size() != op.inputs.size()) {
    raise<InvalidArgument>(
        "fused: the body has {} inputs, got {} operands", inputs.size(), op.inputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ir::Op& input = body.op(inputs[i]);
    if (input.name != fmt::format("in{}", i)) {
      raise<InvalidArgument>("fused: input {} of the body is named '{}'", i, input.name);
    }
    if (input.outputs[0] != op.inputs[i]) {
      raise<InvalidArgument>(
          "fused: operand {} must be {}, got {}", i, input.outputs[0].str(), op.inputs[i].str());
    }
  }
}

void checkBody(const ir::Graph& body) {
  const ir::Op* first = nullptr;
  for (const ir::OpId id : body.order()) {
    const ir::Op& op = body.op(id);
    if (op.is(ir::kInput) || op.is(ir::kConstant)) {
      continue;
    }
    const bool anchor = first == nullptr && isFusionAnchor(*op.def);
    if (!anchor && !isFusible(*op.def)) {
      raise<InvalidArgument>(
          "fused: {} cannot stand in a body, which holds element-wise ops and at most one anchor "
          "before them",
          op.def->name);
    }
    first = first == nullptr ? &op : first;
    if (op.outputs[0].shape != first->outputs[0].shape) {
      raise<InvalidArgument>("fused: results in the body must have one shape, got {} and {}",
                             first->outputs[0].shape.str(),
                             op.outputs[0].shape.str());
    }
  }
  if (first == nullptr) {
    raise<InvalidArgument>("fused: the body has no op");
  }
}

std::vector<TensorType> infer(const ir::OpView& op) {
  const ir::Graph& body = op.attrs.subgraph("body");
  checkOperands(op, body);
  checkBody(body);
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < body.outputs().size(); ++i) {
    const ir::Output& output = body.outputs()[i];
    const ir::Op& producer = body.op(output.value.op);
    if (output.name != fmt::format("out{}", i)) {
      raise<InvalidArgument>("fused: output {} of the body is named '{}'", i, output.name);
    }
    if (producer.is(ir::kInput) || producer.is(ir::kConstant)) {
      raise<InvalidArgument>("fused: output {} of the body is no result of an op", i);
    }
    types.push_back(body.type(output.value));
  }
  if (types.empty()) {
    raise<InvalidArgument>("fused: the body has no output");
  }
  return types;
}

ir::Cost cost(const ir::OpView& op) {
  const ir::Graph& body = op.attrs.subgraph("body");
  ir::Cost total;
  for (const ir::OpId id : body.order()) {
    const ir::Op& member = body.op(id);
    const std::vector<TensorType> types = body.inputTypes(member);
    total.flops += costOf(view(member, types)).flops;
  }
  for (const TensorType& type : op.inputs) {
    total.bytesRead += static_cast<double>(type.bytes());
  }
  for (const TensorType& type : op.outputs) {
    total.bytesWritten += static_cast<double>(type.bytes());
  }
  return total;
}

void reference(const ir::KernelArgs& args) {
  std::vector<HostTensor> operands;
  for (std::size_t i = 0; i < args.inputs.size(); ++i) {
    HostTensor& tensor = operands.emplace_back(args.op.inputs[i]);
    std::memcpy(tensor.bytes(), args.inputs[i], tensor.byteCount());
  }
  const std::vector<HostTensor> results =
      evaluateBody(args.op.attrs.subgraph("body"), operands, args.run);
  for (std::size_t i = 0; i < args.outputs.size(); ++i) {
    std::memcpy(args.outputs[i], results[i].bytes(), results[i].byteCount());
  }
}

/// Its members, one by one.
std::vector<ir::Value> decompose(ir::GraphBuilder& b,
                                 const ir::OpView& op,
                                 std::span<const ir::Value> operands) {
  return inlineBody(b, op.attrs.subgraph("body"), operands);
}

}  // namespace

bool isFusionAnchor(const ir::OpDef& def) {
  return std::ranges::find(kAnchors, def.name) != kAnchors.end();
}

bool isFusible(const ir::OpDef& def) {
  const ir::OpTraits& traits = def.traits;
  return traits.elementwise && !traits.random && !traits.effect && !traits.keep &&
         def.outputs == 1 && def.minInputs > 0 && def.reference != nullptr;
}

bool isElementwise(const ir::Op& op) {
  if (!op.is(kFused)) {
    return op.def->traits.elementwise;
  }
  const ir::Graph& body = op.attrs.subgraph("body");
  return std::ranges::all_of(body.order(), [&](ir::OpId id) {
    const ir::Op& inner = body.op(id);
    return inner.def->traits.elementwise || inner.is(ir::kInput) || inner.is(ir::kConstant);
  });
}

const ir::Op* anchorOf(const ir::Graph& body) {
  for (const ir::OpId id : body.order()) {
    if (isFusionAnchor(*body.op(id).def)) {
      return &body.op(id);
    }
  }
  return nullptr;
}

bool ownsItsOperands(const ir::Graph& body, const ir::Op& anchor) {
  const ir::Users users = body.users();
  return std::ranges::all_of(anchor.inputs, [&](ir::Value v) {
    return body.op(v.op).is(ir::kInput) && users.of(v).size() == 1 && !users.isOutput(v);
  });
}

constinit const ir::OpDef kFused{.name = "fused",
                                 .minInputs = 0,
                                 .maxInputs = ir::kVariadic,
                                 .outputs = ir::kVariadic,
                                 .attrs = kAttrs,
                                 .infer = infer,
                                 .cost = cost,
                                 .reference = reference,
                                 .decompose = decompose};

}  // namespace sluice::ops
