// The gradient of a custom op is one op that calls the library's backward. It knows the types of
// the forward operands by attributes, because it need not have the operands themselves.
#include <algorithm>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/custom_call.h"
#include "sluice/ops/custom_def.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/type_attrs.h"

namespace sluice::ops {
namespace {

bool reads(std::uint64_t mask, std::size_t i) {
  return ((mask >> std::min<std::size_t>(i, 63)) & 1U) != 0;
}

const CustomOp& forwardOf(const ir::OpView& view) {
  return static_cast<const CustomGrad&>(view.def).forward;
}

/// What a gradient op is made of, from its attributes.
struct GradForm {
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  std::vector<std::int64_t> wanted;

  explicit GradForm(const ir::OpView& view)
      : inputs(typesOf(view, kInputDtypes, kInputShapes)),
        outputs(typesOf(view, kOutputDtypes, kOutputShapes)),
        wanted(view.attrs.integers(kWanted)) {}

  /// The types of the gradient op's operands, in order.
  std::vector<TensorType> operands(const ir::GradReads& mask) const {
    std::vector<TensorType> types;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (reads(mask.inputs, i)) {
        types.push_back(inputs[i]);
      }
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (reads(mask.outputs, i)) {
        types.push_back(outputs[i]);
      }
    }
    std::ranges::copy_if(outputs, std::back_inserter(types), [](const TensorType& type) {
      return isFloat(type.dtype);
    });
    return types;
  }
};

std::vector<TensorType> infer(const ir::OpView& view) {
  const GradForm form(view);
  const CustomCall check(forwardOf(view), view.attrs);
  if (form.outputs.empty() ||
      !std::ranges::equal(view.inputs, form.operands(forwardOf(view).gradReads))) {
    raise<InvalidArgument>("{}: its operands are not those its attributes tell of", view.def.name);
  }
  std::vector<TensorType> types;
  std::int64_t next = 0;
  for (const std::int64_t i : form.wanted) {
    const auto size = static_cast<std::int64_t>(form.inputs.size());
    if (i < next || i >= size || !isFloat(form.inputs[static_cast<std::size_t>(i)].dtype)) {
      raise<InvalidArgument>("{}: there is no gradient of input {}", view.def.name, i);
    }
    types.push_back(form.inputs[static_cast<std::size_t>(i)]);
    next = i + 1;
  }
  return types;
}

void reference(const ir::KernelArgs& args) {
  const CustomOp& op = forwardOf(args.op);
  const GradForm form(args.op);
  CustomCall call(op, args.op.attrs);
  auto operand = args.inputs.begin();
  const auto operandIf = [&](const TensorType& type, bool there) {
    return CustomCall::tensor(type, there ? *operand++ : nullptr);
  };
  for (std::size_t i = 0; i < form.inputs.size(); ++i) {
    call.inputs.push_back(operandIf(form.inputs[i], reads(op.gradReads.inputs, i)));
  }
  for (std::size_t i = 0; i < form.outputs.size(); ++i) {
    call.outputs.push_back(operandIf(form.outputs[i], reads(op.gradReads.outputs, i)));
  }
  for (const TensorType& type : form.outputs) {
    call.outputGrads.push_back(operandIf(type, isFloat(type.dtype)));
  }
  for (const TensorType& type : form.inputs) {
    call.inputGrads.push_back(CustomCall::tensor(type));
  }
  for (std::size_t i = 0; i < form.wanted.size(); ++i) {
    if (args.op.outputs[i].bytes() != 0) {
      std::memset(args.outputs[i], 0, args.op.outputs[i].bytes());
    }
    call.inputGrads[static_cast<std::size_t>(form.wanted[i])].data = args.outputs[i];
  }
  call.run(op.table.backward);
}

/// Twice the forward run: as many results as operands, as a rule of thumb.
ir::Cost cost(const ir::OpView& op) {
  const GradForm form(op);
  return costOfFlops(op,
                     2 * forwardOf(op).table.flopsPerElement *
                         static_cast<double>(form.outputs[0].shape.elements()));
}

/// The gradients of the float outputs, zeros where nothing depends on one.
void addOutputGrads(ir::GradContext& context, std::vector<ir::Value>& operands) {
  for (std::size_t i = 0; i < context.op.outputs.size(); ++i) {
    const TensorType& type = context.op.outputs[i];
    if (isFloat(type.dtype)) {
      const ir::Value grad = context.grad(i);
      operands.push_back(
          grad.valid() ? grad
                       : broadcastTo(context.b, context.b.scalar(type.dtype, 0.0), type.shape));
    }
  }
}

}  // namespace

CustomGrad::CustomGrad(const CustomOp& op) : forward(op), fullName(op.fullName + ".grad") {
  // The schema of the op itself, without the types of its results.
  std::ranges::copy_if(op.specs, std::back_inserter(specs), [](const ir::AttrSpec& spec) {
    return !spec.name.starts_with(kReservedAttrPrefix);
  });
  for (const std::string_view dtypes : {kInputDtypes, kOutputDtypes}) {
    specs.push_back({.name = dtypes, .kind = ir::AttrKind::Texts, .required = true});
  }
  for (const std::string_view numbers : {kInputShapes, kOutputShapes, kWanted}) {
    specs.push_back({.name = numbers, .kind = ir::AttrKind::Ints, .required = true});
  }
  name = fullName;
  minInputs = 0;
  maxInputs = ir::kVariadic;
  outputs = ir::kVariadic;
  attrs = specs;
  this->infer = ops::infer;
  this->cost = ops::cost;
  this->reference = ops::reference;
  traits.host = true;
}

std::vector<ir::Value> customGradient(ir::GradContext& context) {
  const CustomOp& op = *asCustomOp(context.op.def);
  std::vector<ir::Value> operands;
  std::vector<std::int64_t> wanted;
  for (std::size_t i = 0; i < context.numInputs(); ++i) {
    if (reads(op.gradReads.inputs, i)) {
      operands.push_back(context.input(i));
    }
    if (isFloat(context.op.inputs[i].dtype) && context.needs(i)) {
      wanted.push_back(static_cast<std::int64_t>(i));
    }
  }
  for (std::size_t i = 0; i < context.op.outputs.size(); ++i) {
    if (reads(op.gradReads.outputs, i)) {
      operands.push_back(context.output(i));
    }
  }
  addOutputGrads(context, operands);
  ir::Attrs attrs;
  for (const ir::NamedAttr& attr : context.op.attrs) {
    if (!attr.name.starts_with(kReservedAttrPrefix)) {
      attrs.set(attr);
    }
  }
  TypeAttrs inputs = typeAttrs(context.op.inputs);
  TypeAttrs outputs = typeAttrs(context.op.outputs);
  attrs.set({kInputDtypes, std::move(inputs.dtypes)});
  attrs.set({kInputShapes, std::move(inputs.shapes)});
  attrs.set({kOutputDtypes, std::move(outputs.dtypes)});
  attrs.set({kOutputShapes, std::move(outputs.shapes)});
  attrs.set({kWanted, wanted});
  const std::vector<ir::Value> results =
      context.b.addMany(*op.gradient, std::move(operands), std::move(attrs));
  std::vector<ir::Value> grads(context.numInputs());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    grads[static_cast<std::size_t>(wanted[i])] = results[i];
  }
  return grads;
}

}  // namespace sluice::ops
