// Element-wise ops, alone and in the body of a fused op. A thread makes one element of all results:
// it loads the operands, computes every value of the body and rounds it to its declared type (R5),
// and stores the results last, because a result may lie where an operand was.
#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sluice/devices/cuda/kernels/kernels.h"
#include "sluice/ir/graph.h"
#include "sluice/ops/fused.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::devices::cuda {
namespace {

constexpr unsigned kFloats = 1;
constexpr unsigned kIntegers = 2;
constexpr unsigned kBools = 4;

unsigned typesOf(DType dtype) {
  return isFloat(dtype) ? kFloats : dtype == DType::Bool ? kBools : kIntegers;
}

struct ElementOp {
  std::string_view name;
  unsigned types;  ///< of the operand that it computes with
};

constexpr unsigned kNumbers = kFloats | kIntegers;
constexpr unsigned kAll = kNumbers | kBools;

constexpr std::array kElementOps = {
    ElementOp{"abs", kNumbers},
    ElementOp{"acos", kFloats},
    ElementOp{"acosh", kFloats},
    ElementOp{"add", kNumbers},
    ElementOp{"asin", kFloats},
    ElementOp{"asinh", kFloats},
    ElementOp{"atan", kFloats},
    ElementOp{"atan2", kFloats},
    ElementOp{"atanh", kFloats},
    ElementOp{"bit_shift", kIntegers},
    ElementOp{"bitwise_and", kIntegers},
    ElementOp{"bitwise_not", kIntegers},
    ElementOp{"bitwise_or", kIntegers},
    ElementOp{"bitwise_xor", kIntegers},
    ElementOp{"broadcast_to", kAll},
    ElementOp{"cast", kAll},
    ElementOp{"ceil", kFloats},
    ElementOp{"clamp", kNumbers},
    ElementOp{"cos", kFloats},
    ElementOp{"cosh", kFloats},
    ElementOp{"div", kNumbers},
    ElementOp{"elu", kFloats},
    ElementOp{"equal", kAll},
    ElementOp{"erf", kFloats},
    ElementOp{"exp", kFloats},
    ElementOp{"expm1", kFloats},
    ElementOp{"floor", kFloats},
    ElementOp{"gelu", kFloats},
    ElementOp{"gelu_grad", kFloats},
    ElementOp{"greater", kNumbers},
    ElementOp{"greater_equal", kNumbers},
    ElementOp{"is_nan", kFloats},
    ElementOp{"leaky_relu", kFloats},
    ElementOp{"less", kNumbers},
    ElementOp{"less_equal", kNumbers},
    ElementOp{"log", kFloats},
    ElementOp{"log1p", kFloats},
    ElementOp{"logical_and", kBools},
    ElementOp{"logical_not", kBools},
    ElementOp{"logical_or", kBools},
    ElementOp{"logical_xor", kBools},
    ElementOp{"maximum", kNumbers},
    ElementOp{"minimum", kNumbers},
    ElementOp{"mod", kNumbers},
    ElementOp{"mul", kNumbers},
    ElementOp{"neg", kNumbers},
    ElementOp{"not_equal", kAll},
    ElementOp{"pow", kFloats},
    ElementOp{"reciprocal", kFloats},
    ElementOp{"relu", kNumbers},
    ElementOp{"relu_grad", kNumbers},
    ElementOp{"round", kFloats},
    ElementOp{"rsqrt", kFloats},
    ElementOp{"sigmoid", kFloats},
    ElementOp{"sign", kNumbers},
    ElementOp{"silu", kFloats},
    ElementOp{"sin", kFloats},
    ElementOp{"sinh", kFloats},
    ElementOp{"softplus", kFloats},
    ElementOp{"sqrt", kFloats},
    ElementOp{"square", kNumbers},
    ElementOp{"sub", kNumbers},
    ElementOp{"tan", kFloats},
    ElementOp{"tanh", kFloats},
    ElementOp{"where", kAll},
};

static_assert(std::ranges::is_sorted(kElementOps, {}, &ElementOp::name));

/// The name of the function and the arguments that follow the operands.
struct Function {
  std::string name;
  std::string extra = {};
};

Function functionOf(const ir::OpView& op) {
  const std::string name(op.def.name);
  if (name == "elu" || name == "leaky_relu") {
    return {"op_" + name, ", " + literal(op.attrs.real("alpha"))};
  }
  if (name == "gelu" || name == "gelu_grad") {
    return {fmt::format("op_{}_{}", name, op.attrs.text("approximate"))};
  }
  if (name == "mod") {
    return {op.attrs.flag("fmod") ? "op_fmod" : "op_mod"};
  }
  if (name == "bit_shift") {
    return {op.attrs.text("direction") == "LEFT" ? "op_shift_left" : "op_shift_right"};
  }
  if (name == "cast") {
    return {fmt::format("convert<{}>", typeText(op.outputs[0].dtype))};
  }
  if (name == "broadcast_to") {
    return {""};
  }
  if (name == "clamp") {
    const auto bound = [&](std::string_view which) {
      return fmt::format(", wide(FromDouble<{}>::of({}))",
                         typeText(op.inputs[0].dtype),
                         literal(op.attrs.real(which)));
    };
    return {"op_clamp", bound("low") + bound("high")};
  }
  return {"op_" + name};
}

/// A line that computes `name` from the operands and rounds it to its type.
std::string valueText(const std::string& name,
                      const ir::OpView& op,
                      const std::vector<std::string>& operands) {
  const Function function = functionOf(op);
  const DType dtype = op.outputs[0].dtype;
  const std::string call =
      fmt::format("{}({}{})", function.name, fmt::join(operands, ", "), function.extra);
  return op.def.name == "cast"
             ? fmt::format("  const {} {} = wide({});\n", wideText(dtype), name, call)
             : fmt::format("  const {} {} = rounded<{}>({});\n",
                           wideText(dtype),
                           name,
                           typeText(dtype),
                           call);
}

std::string loadText(std::size_t input, const TensorType& type, const Shape& output) {
  return fmt::format("  const {} x{} = wide(in{}[{}]);\n",
                     wideText(type.dtype),
                     input,
                     input,
                     offsetText("i", output.dims(), broadcastStrides(type.shape, output)));
}

std::string storeText(std::size_t output, DType dtype, const std::string& value) {
  return fmt::format("  out{}[i] = narrow<{}>({});\n", output, typeText(dtype), value);
}

std::string constantText(const HostTensor& value) {
  const DType dtype = value.dtype();
  if (isFloat(dtype)) {
    return fmt::format("({}){}", wideText(dtype), literal(value.at(0)));
  }
  if (dtype == DType::Bool) {
    return value.at(0) != 0 ? "true" : "false";
  }
  // Whole, not by way of a double.
  const HostTensor whole = cast(value, DType::I64);
  return fmt::format("({}){}", wideText(dtype), literal(whole.data<std::int64_t>()[0]));
}

}  // namespace

bool supportsElementwise(const ir::OpView& op) {
  const auto found = std::ranges::lower_bound(kElementOps, op.def.name, {}, &ElementOp::name);
  if (found == kElementOps.end() || found->name != op.def.name) {
    return false;
  }
  const std::size_t computed = op.def.name == "where" ? 1 : 0;
  return (found->types & typesOf(op.inputs[computed].dtype)) != 0;
}

Source elementwiseSource(const ir::OpView& op) {
  const Shape& shape = op.outputs[0].shape;
  std::string body;
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    body += loadText(i, op.inputs[i], shape);
    operands.push_back(fmt::format("x{}", i));
  }
  body += valueText("y", op, operands) + storeText(0, op.outputs[0].dtype, "y");
  Source source;
  addElementEntry(source, op, "elements", shape.elements(), body);
  return source;
}

bool supportsFused(const ir::OpView& op) {
  const ir::Graph& body = op.attrs.subgraph("body");
  return ops::anchorOf(body) == nullptr && std::ranges::all_of(body.order(), [&](ir::OpId id) {
           const ir::Op& member = body.op(id);
           if (member.is(ir::kInput)) {
             return true;
           }
           if (member.is(ir::kConstant)) {
             return member.outputs[0].shape.elements() == 1;
           }
           const std::vector<TensorType> types = body.inputTypes(member);
           return supportsElementwise(ir::view(member, types));
         });
}

Source fusedSource(const ir::OpView& op) {
  const ir::Graph& body = op.attrs.subgraph("body");
  const Shape& shape = op.outputs[0].shape;
  std::string loads;
  std::string values;
  std::map<ir::Value, std::string> names;
  std::size_t input = 0;
  for (const ir::OpId id : body.order()) {
    const ir::Op& member = body.op(id);
    if (member.is(ir::kInput)) {
      loads += loadText(input, op.inputs[input], shape);
      names[member.out()] = fmt::format("x{}", input++);
    } else if (member.is(ir::kConstant)) {
      names[member.out()] = constantText(member.attrs.tensor("value"));
    } else {
      std::vector<std::string> operands;
      for (const ir::Value value : member.inputs) {
        operands.push_back(names.at(value));
      }
      const std::string name = fmt::format("v{}", names.size());
      const std::vector<TensorType> types = body.inputTypes(member);
      values += valueText(name, ir::view(member, types), operands);
      names[member.out()] = name;
    }
  }
  std::string stores;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    stores += storeText(i, op.outputs[i].dtype, names.at(body.outputs()[i].value));
  }
  Source source;
  addElementEntry(source, op, "elements", shape.elements(), loads + values + stores);
  return source;
}

}  // namespace sluice::devices::cuda
