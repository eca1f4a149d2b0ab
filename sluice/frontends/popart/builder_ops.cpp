// What the op sets of Builder share: one node of ONNX by its name.
#include <algorithm>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/op_attrs.h"
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

std::vector<TensorId> Builder::op(OpCall call) {
  return makeMany(call.name.empty() ? call.op : call.name, [&] {
    onnx::NodeCall node{.op = call.op,
                        .attrs = std::move(call.attrs),
                        .outputs = call.outputs,
                        .bodies = std::move(call.bodies),
                        .domain = call.domain,
                        .opset = call.opset,
                        .training = call.training};
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
  return b_.op({.op = op,
                .inputs = {inputs.begin(), inputs.end()},
                .attrs = std::move(attrs),
                .outputs = outputs});
}

TensorId AiOnnx::one(std::string_view op,
                     const std::vector<OpOperand>& inputs,
                     std::vector<ir::NamedAttr> attrs) {
  return b_.op({.op = op, .inputs = inputs, .attrs = std::move(attrs)})[0];
}

void detail::requireTensors(std::string_view op,
                            const std::vector<std::string>& inputs,
                            std::size_t least,
                            std::size_t most) {
  if (inputs.size() < least || inputs.size() > most) {
    raise<InvalidArgument>(
        "{} takes a list of {} tensors, got {}",
        op,
        least == most ? fmt::to_string(least) : fmt::format("{} to {}", least, most),
        inputs.size());
  }
}

TensorId AiOnnx::batchnormalization(const Ids& inputs, double epsilon) {
  detail::requireTensors("batchnormalization", inputs, 5, 5);
  return batchnormalization(
      inputs[0],
      {.scale = inputs[1], .bias = inputs[2], .mean = inputs[3], .variance = inputs[4]},
      epsilon);
}

TensorId AiOnnx::conv(const Ids& inputs, const ops::ConvOptions& options) {
  detail::requireTensors("conv", inputs, 2, 3);
  return conv(inputs[0], inputs[1], options, inputs.size() == 3 ? inputs[2] : TensorId());
}

TensorId AiOnnx::convtranspose(const Ids& inputs, const ConvTransposeOptions& options) {
  detail::requireTensors("convtranspose", inputs, 2, 3);
  return convtranspose(inputs[0], inputs[1], options, inputs.size() == 3 ? inputs[2] : TensorId());
}

TensorId AiOnnx::gemm(const Ids& inputs, const GemmOptions& options) {
  detail::requireTensors("gemm", inputs, 2, 3);
  return gemm(inputs[0], inputs[1], inputs.size() == 3 ? inputs[2] : TensorId(), options);
}

TensorId AiOnnx::layernormalization(const Ids& inputs, const LayerNormOptions& options) {
  detail::requireTensors("layernormalization", inputs, 2, 3);
  return layernormalization(
      inputs[0], inputs[1], inputs.size() == 3 ? inputs[2] : TensorId(), options);
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
