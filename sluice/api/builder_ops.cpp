// What the op sets of Builder share: one node of ONNX by its name.
#include <algorithm>

#include "sluice/api/builder.h"
#include "sluice/api/op_attrs.h"
#include "sluice/onnx/append.h"
#include "sluice/onnx/node.h"

namespace sluice {
namespace {

/// An operand that is not a tensor of the graph.
HostTensor valueOf(const OpOperand& operand) {
  if (const auto* tensor = std::get_if<HostTensor>(&operand)) {
    return *tensor;
  }
  const auto& numbers = std::get<std::vector<std::int64_t>>(operand);
  return HostTensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(numbers.size())},
                                      std::span<const std::int64_t>(numbers));
}

}  // namespace

std::vector<TensorId> Builder::translate(OpCall call) {
  return makeMany(call.op, [&] {
    onnx::NodeCall node{.op = call.op,
                        .attrs = std::move(call.attrs),
                        .outputs = call.outputs,
                        .bodies = std::move(call.bodies),
                        .domain = call.domain};
    for (const OpOperand& operand : call.inputs) {
      const auto* id = std::get_if<TensorId>(&operand);
      node.inputs.push_back(id == nullptr || id->empty() ? ir::Value() : value(*id));
      if (id == nullptr) {
        node.constants.emplace(node.inputs.size() - 1, valueOf(operand));
      }
    }
    return onnx::appendNode(b_, node);
  });
}

AiOnnx::Ids AiOnnx::node(std::string_view op,
                         const Ids& inputs,
                         std::vector<ir::NamedAttr> attrs,
                         std::size_t outputs) {
  return b_.translate({.op = op,
                       .inputs = {inputs.begin(), inputs.end()},
                       .attrs = std::move(attrs),
                       .outputs = outputs});
}

TensorId AiOnnx::one(std::string_view op,
                     const std::vector<OpOperand>& inputs,
                     std::vector<ir::NamedAttr> attrs) {
  return b_.translate({.op = op, .inputs = inputs, .attrs = std::move(attrs)})[0];
}

std::vector<ir::NamedAttr> given(std::vector<ir::NamedAttr> attrs) {
  const auto isEmpty = [](const auto& value) {
    if constexpr (requires { value.empty(); }) {
      return value.empty();
    } else {
      return false;
    }
  };
  std::erase_if(attrs, [&](const ir::NamedAttr& attr) { return std::visit(isEmpty, attr.value); });
  return attrs;
}

std::vector<ir::NamedAttr> withType(std::optional<DType> dtype, std::vector<ir::NamedAttr> attrs) {
  if (dtype) {
    attrs.emplace_back("dtype", onnx::onnxTypeOf(*dtype));
  }
  return attrs;
}

}  // namespace sluice
