#include "sluice/ops/custom_def.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/custom/op.h"
#include "sluice/ir/number_text.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/custom_call.h"
#include "sluice/ops/type_attrs.h"

namespace sluice::ops {
namespace {

namespace abi = custom::abi;

/// Results have one bit each in GradReads.
constexpr std::size_t kMaxOutputs = 63;
/// What ONNX and we have ops in already.
constexpr std::array<std::string_view, 5> kReservedDomains = {
    "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "ai.graphcore", "sluice"};

/// A letter or '_', then letters, digits, '_' and perhaps dots between such words.
bool isName(std::string_view text, bool dots) {
  bool begins = true;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    if (!letter && (begins || !(digit || (dots && c == '.')))) {
      return false;
    }
    begins = c == '.';
  }
  return !begins;
}

std::string checkedName(const char* text, std::string_view what, bool dots) {
  if (text == nullptr || !isName(text, dots)) {
    raise<InvalidArgument>("'{}' cannot be the {} of a custom op: expected letters, digits and _",
                           text == nullptr ? "" : text,
                           what);
  }
  return text;
}

void checkDeclaration(const abi::Op& op) {
  const std::string domain = checkedName(op.domain, "domain", true);
  const std::string opName = checkedName(op.name, "name", false);
  if (std::ranges::find(kReservedDomains, domain) != kReservedDomains.end()) {
    raise<InvalidArgument>("custom op {}: the domain {} is reserved", opName, domain);
  }
  if (op.version < 1) {
    raise<InvalidArgument>("custom op {}: versions start at 1, got {}", opName, op.version);
  }
  if (op.forward == nullptr) {
    raise<InvalidArgument>("custom op {}: it has no forward function", opName);
  }
  if (op.minInputs < 0 || (op.maxInputs != -1 && op.maxInputs < op.minInputs)) {
    raise<InvalidArgument>(
        "custom op {}: it cannot have {} to {} inputs", opName, op.minInputs, op.maxInputs);
  }
  if (op.numAttrs < 0 || (op.numAttrs > 0 && op.attrs == nullptr)) {
    raise<InvalidArgument>("custom op {}: it says {} attributes, and its table of them is {}",
                           opName,
                           op.numAttrs,
                           op.attrs == nullptr ? "null" : "not");
  }
  if (op.outputs != -1 && (op.outputs < 1 || op.outputs > static_cast<int>(kMaxOutputs))) {
    raise<InvalidArgument>(
        "custom op {}: it can have 1 to {} outputs, got {}", opName, kMaxOutputs, op.outputs);
  }
}

/// Of what is read of an attribute's values, nothing may be null.
void checkDefaults(const abi::Attr& attr, const std::string& op, const std::string& name) {
  const auto kind = static_cast<custom::AttrKind>(attr.kind);
  const bool texts = kind == custom::AttrKind::Text || kind == custom::AttrKind::Texts;
  const bool reals = kind == custom::AttrKind::Real || kind == custom::AttrKind::Reals;
  const void* values = texts   ? static_cast<const void*>(attr.texts)
                       : reals ? static_cast<const void*>(attr.reals)
                               : static_cast<const void*>(attr.integers);
  if (values == nullptr) {
    raise<InvalidArgument>(
        "custom op {}: attribute '{}' says {} values, and they are null", op, name, attr.count);
  }
  for (std::int64_t i = 0; texts && i < attr.count; ++i) {
    const abi::Text& text = attr.texts[i];
    if (text.size < 0 || (text.size > 0 && text.data == nullptr)) {
      raise<InvalidArgument>(
          "custom op {}: attribute '{}': text {} of {} bytes is null", op, name, i, text.size);
    }
  }
}

/// As an op's schema has it; lists have no default there.
ir::AttrSpec specOf(const abi::Attr& attr, CustomOp& op) {
  const std::string& name = op.texts.emplace_back(checkedName(attr.name, "attribute", false));
  if (name == "var" || name.starts_with(kReservedAttrPrefix)) {
    raise<InvalidArgument>("custom op {}: attribute name '{}' is reserved", op.fullName, name);
  }
  ir::AttrSpec spec{.name = name, .required = attr.required != 0};
  const bool list = attr.kind >= static_cast<std::int32_t>(custom::AttrKind::Reals);
  if (!spec.required && (attr.count < 0 || (!list && attr.count != 1))) {
    raise<InvalidArgument>("custom op {}: attribute '{}' has no default", op.fullName, name);
  }
  const std::int64_t count = spec.required ? 0 : attr.count;
  if (count > 0) {
    checkDefaults(attr, op.fullName, name);
  }
  const auto text = [](const abi::Text& view) {
    return view.size == 0 ? std::string()
                          : std::string(view.data, static_cast<std::size_t>(view.size));
  };
  switch (static_cast<custom::AttrKind>(attr.kind)) {
    case custom::AttrKind::Real:
      spec.kind = ir::AttrKind::Real;
      spec.real = spec.required ? 0.0 : ir::decimalDouble(*attr.reals);
      return spec;
    case custom::AttrKind::Integer:
      spec.kind = ir::AttrKind::Int;
      spec.integer = spec.required ? 0 : *attr.integers;
      return spec;
    case custom::AttrKind::Text:
      spec.kind = ir::AttrKind::Text;
      spec.text = spec.required ? std::string_view() : op.texts.emplace_back(text(*attr.texts));
      return spec;
    case custom::AttrKind::Reals: {
      spec.kind = ir::AttrKind::Reals;
      std::vector<double> values;
      std::transform(attr.reals, attr.reals + count, std::back_inserter(values), ir::decimalDouble);
      op.listDefaults.emplace_back(name, std::move(values));
      return spec;
    }
    case custom::AttrKind::Integers:
      spec.kind = ir::AttrKind::Ints;
      op.listDefaults.emplace_back(name, std::vector(attr.integers, attr.integers + count));
      return spec;
    case custom::AttrKind::Texts: {
      spec.kind = ir::AttrKind::Texts;
      std::vector<std::string> values;
      std::transform(attr.texts, attr.texts + count, std::back_inserter(values), text);
      op.listDefaults.emplace_back(name, std::move(values));
      return spec;
    }
  }
  raise<InvalidArgument>("custom op {}: attribute '{}' is of no kind", op.fullName, name);
}

std::vector<TensorType> infer(const ir::OpView& view) {
  const CustomOp& op = *asCustomOp(view.def);
  CustomCall call(op, view.attrs);  // checks the attributes in any case
  for (const TensorType& type : view.inputs) {
    call.inputs.push_back(CustomCall::tensor(type));
  }
  std::vector<TensorType> types =
      op.infersTypes() ? call.run(op.table.infer) : typesOf(view, kDtypes, kShapes);
  const auto count = static_cast<std::int32_t>(types.size());
  if (types.empty() || types.size() > kMaxOutputs ||
      (op.table.outputs != -1 && op.table.outputs != count)) {
    raise<InvalidArgument>(
        "{}: expected {} outputs, {} {}",
        op.fullName,
        op.table.outputs == -1 ? fmt::format("1 to {}", kMaxOutputs)
                               : std::to_string(op.table.outputs),
        op.infersTypes() ? "its inference gives" : "example outputs are given for",
        count);
  }
  return types;
}

ir::Cost cost(const ir::OpView& op) {
  return costOfFlops(op,
                     asCustomOp(op.def)->table.flopsPerElement *
                         static_cast<double>(op.outputs[0].shape.elements()));
}

}  // namespace

void customForward(const ir::KernelArgs& args) {
  const CustomOp& op = *asCustomOp(args.op.def);
  CustomCall call(op, args.op.attrs);
  for (std::size_t i = 0; i < args.inputs.size(); ++i) {
    call.inputs.push_back(CustomCall::tensor(args.op.inputs[i], args.inputs[i]));
  }
  for (std::size_t i = 0; i < args.outputs.size(); ++i) {
    const TensorType& type = args.op.outputs[i];
    if (type.bytes() != 0) {
      std::memset(args.outputs[i], 0, type.bytes());
    }
    call.outputs.push_back(CustomCall::tensor(type, args.outputs[i]));
  }
  call.run(op.table.forward);
}

const CustomOp* asCustomOp(const ir::OpDef& def) {
  return def.reference == customForward ? static_cast<const CustomOp*>(&def) : nullptr;
}

CustomOp::CustomOp(const abi::Op& op, std::string_view library) : table(op), origin(library) {
  checkDeclaration(op);
  domain = op.domain;
  opName = op.name;
  fullName = fmt::format("{}.{}.{}", domain, opName, op.version);
  for (std::int32_t i = 0; i < op.numAttrs; ++i) {
    const ir::AttrSpec spec = specOf(op.attrs[i], *this);
    if (std::ranges::find(specs, spec.name, &ir::AttrSpec::name) != specs.end()) {
      raise<InvalidArgument>("custom op {}: attribute '{}' exists twice", fullName, spec.name);
    }
    specs.push_back(spec);
  }
  if (op.infer == nullptr) {
    specs.push_back({.name = kDtypes, .kind = ir::AttrKind::Texts, .required = true});
    specs.push_back({.name = kShapes, .kind = ir::AttrKind::Ints, .required = true});
  }
  name = fullName;
  minInputs = op.minInputs;
  maxInputs = op.maxInputs == -1 ? ir::kVariadic : op.maxInputs;
  outputs = op.outputs == -1 ? ir::kVariadic : op.outputs;
  attrs = specs;
  this->infer = ops::infer;
  this->cost = ops::cost;
  reference = customForward;
  traits.host = true;
  if (op.backward != nullptr) {
    grad = customGradient;
    gradReads = {op.backwardInputs, op.backwardOutputs};
    gradient = std::make_unique<CustomGrad>(*this);
  }
}

}  // namespace sluice::ops
