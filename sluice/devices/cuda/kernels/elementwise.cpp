// Element-wise ops, alone and in the body of a fused op. A thread makes a few elements of all
// results that lie side by side: it loads the operands, computes every value of the body and rounds
// it to its declared type (R5), and stores the results last, because a result may lie where an
// operand was.
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
    ElementOp{"erfc", kFloats},
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

/// The elements that a kernel makes, in the order of their storage.
struct Space {
  std::vector<std::size_t> order;  ///< of the axes
  std::vector<std::int64_t> dims;
  std::int64_t count = 0;
  std::int64_t width = 1;  ///< elements of a thread
};

/// So many that the largest type fills 16 bytes, unless few threads would be left.
std::int64_t widthOf(const ir::OpView& op, std::int64_t count) {
  constexpr std::int64_t kPacket = 16;
  constexpr std::int64_t kEnoughThreads = 1 << 15;
  std::size_t largest = 2;
  for (const std::span<const TensorType> types : {op.inputs, op.outputs}) {
    for (const TensorType& type : types) {
      largest = std::max(largest, byteSize(type.dtype));
    }
  }
  std::int64_t width = kPacket / static_cast<std::int64_t>(largest);
  while (width > 1 && (count % width != 0 || count / width < kEnoughThreads)) {
    width /= 2;
  }
  return width;
}

Space spaceOf(const ir::OpView& op, const device::Choice& choice) {
  const Shape& shape = op.outputs[0].shape;
  Space space{.order = storageOrder(shape.rank(), choice.outputs[0]), .count = shape.elements()};
  space.dims = inOrder(shape.dims(), space.order);
  space.width = widthOf(op, space.count);
  return space;
}

/// How an operand lies in the space: 0 along axes that it is broadcast over.
std::vector<std::int64_t> stridesIn(const Space& space,
                                    const Shape& output,
                                    const TensorType& operand,
                                    const device::Layout& layout) {
  std::vector<std::int64_t> strides = broadcastStrides(operand.shape, output);
  if (!layout.isPlain()) {  // of the output's rank
    strides = device::strides(operand.shape, layout);
    for (std::size_t a = 0; a < strides.size(); ++a) {
      strides[a] = operand.shape.dims()[a] == 1 ? 0 : strides[a];
    }
  }
  return inOrder(strides, space.order);
}

/// The text of a kernel: what comes before the loop over the elements of a thread, what is done for
/// element j, and what follows.
struct ElementText {
  std::string before;
  std::string each;
  std::string after;
};

void addLoad(ElementText& text,
             std::size_t input,
             const TensorType& type,
             const Space& space,
             std::span<const std::int64_t> strides) {
  const std::string_view wide = wideText(type.dtype);
  const auto offset = [&](std::string_view at) { return offsetText(at, space.dims, strides); };
  switch (stepsOf(space.dims, strides, space.width)) {
    case Steps::Same:
      text.before +=
          fmt::format("  const {} x{} = wide(in{}[{}]);\n", wide, input, input, offset("i"));
      return;
    case Steps::Consecutive:
      text.before +=
          fmt::format("  const auto p{0} = load<WIDTH>(in{0} + {1});\n", input, offset("i"));
      text.each += fmt::format("    const {0} x{1} = wide(p{1}.at[j]);\n", wide, input);
      return;
    case Steps::Any:
      text.before += fmt::format(
          "  {0} a{1}[WIDTH];\n#pragma unroll\n"
          "  for (int j = 0; j < WIDTH; ++j) a{1}[j] = wide(in{1}[{2}]);\n",
          wide,
          input,
          offset("i + j"));
      text.each += fmt::format("    const {0} x{1} = a{1}[j];\n", wide, input);
      return;
  }
}

void addStore(ElementText& text, std::size_t output, DType dtype, const std::string& value) {
  text.before += fmt::format("  Elements<WIDTH, {}> y{};\n", typeText(dtype), output);
  text.each += fmt::format("    y{}.at[j] = narrow<{}>({});\n", output, typeText(dtype), value);
  text.after += fmt::format("  store(out{0} + i, y{0});\n", output);
}

Source sourceOf(const ir::OpView& op, const Space& space, const ElementText& text) {
  Source source;
  const std::int64_t threads = space.count / space.width;
  addEntry(source,
           op,
           {"elements", (threads + kThreads - 1) / kThreads, kThreads},
           fmt::format("  constexpr int WIDTH = {};\n"
                       "  const i64 i = ((i64)blockIdx.x * {} + threadIdx.x) * WIDTH;\n"
                       "  if (i >= {}ll) return;\n"
                       "{}#pragma unroll\n  for (int j = 0; j < WIDTH; ++j) {{\n{}  }}\n{}",
                       space.width,
                       kThreads,
                       space.count,
                       text.before,
                       text.each,
                       text.after));
  return source;
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

device::Choice chooseFollowing(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const std::int64_t rank = op.outputs[0].shape.rank();
  if (rank >= 3 && rank <= 5) {
    choice.rule = device::LayoutRule::Follow;
  }
  return choice;
}

Source elementwiseSource(const ir::OpView& op, const device::Choice& choice) {
  const Space space = spaceOf(op, choice);
  ElementText text;
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    addLoad(text,
            i,
            op.inputs[i],
            space,
            stridesIn(space, op.outputs[0].shape, op.inputs[i], choice.inputs[i]));
    operands.push_back(fmt::format("x{}", i));
  }
  text.each += valueText("y", op, operands);
  addStore(text, 0, op.outputs[0].dtype, "y");
  return sourceOf(op, space, text);
}

Source reorderSource(const ir::OpView& op, const device::Choice& choice) {
  const Space space = spaceOf(op, choice);
  const std::vector<std::int64_t> strides =
      stridesIn(space, op.outputs[0].shape, op.inputs[0], choice.inputs[0]);
  const std::string offset = offsetText("i", space.dims, strides);
  const bool together = stepsOf(space.dims, strides, space.width) == Steps::Consecutive;
  ElementText text;
  text.before = fmt::format("  Elements<WIDTH, {}> y;\n", typeText(op.outputs[0].dtype));
  if (together) {
    text.before += fmt::format("  y = load<WIDTH>(in0 + {});\n", offset);
  } else {
    text.each = fmt::format("    y.at[j] = in0[{}];\n", offsetText("i + j", space.dims, strides));
  }
  text.after = "  store(out0 + i, y);\n";
  return sourceOf(op, space, text);
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

Source fusedSource(const ir::OpView& op, const device::Choice& choice) {
  const ir::Graph& body = op.attrs.subgraph("body");
  const Space space = spaceOf(op, choice);
  ElementText text;
  std::map<ir::Value, std::string> names;
  std::size_t input = 0;
  for (const ir::OpId id : body.order()) {
    const ir::Op& member = body.op(id);
    if (member.is(ir::kInput)) {
      addLoad(text,
              input,
              op.inputs[input],
              space,
              stridesIn(space, op.outputs[0].shape, op.inputs[input], choice.inputs[input]));
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
      text.each += "  " + valueText(name, ir::view(member, types), operands);
      names[member.out()] = name;
    }
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    addStore(text, i, op.outputs[i].dtype, names.at(body.outputs()[i].value));
  }
  return sourceOf(op, space, text);
}

}  // namespace sluice::devices::cuda
