#include "sluice/ir/op_def.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::ir {
namespace {

constexpr std::array<AttrSpec, 1> kVariableAttrs = {
    {{.name = "var", .kind = AttrKind::Text, .required = true}}};
constexpr std::array<AttrSpec, 1> kConstantAttrs = {
    {{.name = "value", .kind = AttrKind::Tensor, .required = true}}};
constexpr std::array<AttrSpec, 2> kAssignAttrs = {
    {{.name = "var", .kind = AttrKind::Text, .required = true},
     {.name = "mode", .kind = AttrKind::Text, .text = "set"}}};

std::vector<TensorType> inferConstant(const OpView& op) {
  return {op.attrs.tensor("value").type()};
}

std::vector<TensorType> inferAssign(const OpView& op) {
  const std::string& mode = op.attrs.text("mode");
  if (mode != "set" && mode != "add" && mode != "sum" && mode != "mean") {
    raise<InvalidArgument>("assign: mode is '{}', expected set, add, sum or mean", mode);
  }
  return {};
}

}  // namespace

constinit const OpDef kInput{.name = "input", .minInputs = 0, .maxInputs = 0};
constinit const OpDef kVariable{
    .name = "variable", .minInputs = 0, .maxInputs = 0, .attrs = kVariableAttrs};
constinit const OpDef kConstant{.name = "constant",
                                .minInputs = 0,
                                .maxInputs = 0,
                                .attrs = kConstantAttrs,
                                .infer = inferConstant};
constinit const OpDef kAssign{.name = "assign",
                              .outputs = 0,
                              .attrs = kAssignAttrs,
                              .infer = inferAssign,
                              .traits = {.effect = true}};

Value GradContext::input(std::size_t i) const {
  SLUICE_CHECK(((op.def.gradReads.inputs >> std::min<std::size_t>(i, 63)) & 1U) != 0,
               "the gradient of {} reads input {} without declaring it",
               op.def.name,
               i);
  return inputs_[i];
}

Value GradContext::output(std::size_t i) const {
  SLUICE_CHECK(((op.def.gradReads.outputs >> i) & 1U) != 0,
               "the gradient of {} reads output {} without declaring it",
               op.def.name,
               i);
  return outputs_[i];
}

Attr defaultOf(const AttrSpec& spec) {
  switch (spec.kind) {
    case AttrKind::Int:
      return spec.integer;
    case AttrKind::Real:
      return spec.real;
    case AttrKind::Bool:
      return spec.integer != 0;
    case AttrKind::Text:
      return std::string(spec.text);
    case AttrKind::Ints:
      return std::vector<std::int64_t>();
    case AttrKind::Reals:
      return std::vector<double>();
    case AttrKind::Texts:
      return std::vector<std::string>();
    case AttrKind::Tensor:
      return HostTensor();
    case AttrKind::Subgraph:
      return GraphRef();
  }
  return std::int64_t{0};
}

Cost costOf(const OpView& op) {
  if (op.def.cost != nullptr) {
    return op.def.cost(op);
  }
  Cost cost;
  for (const TensorType& type : op.inputs) {
    cost.bytesRead += static_cast<double>(type.bytes());
  }
  for (const TensorType& type : op.outputs) {
    cost.bytesWritten += static_cast<double>(type.bytes());
    cost.flops += op.def.traits.elementwise ? static_cast<double>(type.shape.elements()) : 0.0;
  }
  return cost;
}

void checkAttrs(const OpDef& def, const Attrs& attrs) {
  for (const NamedAttr& item : attrs) {
    const auto spec = std::ranges::find(def.attrs, item.name, &AttrSpec::name);
    if (spec == def.attrs.end()) {
      std::vector<std::string_view> known;
      for (const AttrSpec& s : def.attrs) {
        known.push_back(s.name);
      }
      raise<InvalidArgument>("{}: attribute '{}' is unknown; it has: {}",
                             def.name,
                             item.name,
                             known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    }
    if (spec->kind != kindOf(item.value)) {
      raise<InvalidArgument>("{}: attribute '{}' must be of kind {}, got {}",
                             def.name,
                             item.name,
                             name(spec->kind),
                             name(kindOf(item.value)));
    }
    if (const auto* nested = std::get_if<GraphRef>(&item.value);
        nested != nullptr && *nested == nullptr) {
      raise<InvalidArgument>("{}: attribute '{}' is an empty subgraph", def.name, item.name);
    }
  }
  for (const AttrSpec& spec : def.attrs) {
    if (spec.required && attrs.find(spec.name) == nullptr) {
      raise<InvalidArgument>("{}: attribute '{}' is missing", def.name, spec.name);
    }
  }
}

Attrs completeAttrs(const OpDef& def, Attrs attrs) {
  checkAttrs(def, attrs);
  for (const AttrSpec& spec : def.attrs) {
    if (attrs.find(spec.name) == nullptr) {
      attrs.set({spec.name, defaultOf(spec)});
    }
  }
  return attrs;
}

const OpDef* OpSet::find(std::string_view name) const {
  const auto at =
      std::ranges::lower_bound(defs_, name, {}, [](const OpDef* def) { return def->name; });
  return at != defs_.end() && (*at)->name == name ? *at : nullptr;
}

}  // namespace sluice::ir
