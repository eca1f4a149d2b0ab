#include "sluice/onnx/export_forms.h"

#include <algorithm>
#include <map>

#include "sluice/base/error.h"
#include "sluice/onnx/model_writer.h"
#include "sluice/onnx/node.h"
#include "sluice/onnx/node_types.h"
#include "sluice/onnx/shared_masks.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/decompose.h"
#include "sluice/transforms/eliminate_dead.h"

namespace sluice::onnx {
namespace {

/// Parts of parts; more is an op that is made of itself.
constexpr int kMaxRounds = 32;

std::map<std::string_view, const StandardForm*> indexForms() {
  std::map<std::string_view, const StandardForm*> index;
  for (const auto family : {imageForms(),
                            indexingForms(),
                            linearForms(),
                            lossForms(),
                            mathForms(),
                            normForms(),
                            randomForms(),
                            shapeForms(),
                            windowForms()}) {
    for (const StandardForm& form : family) {
      const bool fresh = index.emplace(form.op, &form).second;
      SLUICE_CHECK(fresh, "{} has two forms", form.op);
    }
  }
  return index;
}

/// nullptr when the op has no entry.
const StandardForm* findForm(std::string_view op) {
  static const auto kIndex = indexForms();
  const auto found = kIndex.find(op);
  return found == kIndex.end() ? nullptr : found->second;
}

/// The op's name in the default domain of the opset that is written; empty if it has none.
std::string_view standardName(const ir::OpDef& def) {
  for (const ir::OnnxName& name : def.onnx) {
    if (name.domain.empty() && name.since <= kNewestOpset) {
      return name.name;
    }
  }
  return "";
}

void writeDirectly(ModelWriter& writer, const ir::Op& op) {
  NewNode node{standardName(*op.def), writer.operands(op)};
  for (const ir::NamedAttr& attr : op.attrs) {
    const auto* text = std::get_if<std::string>(&attr.value);
    if (text != nullptr && attr.name == "dtype") {
      node.attrs.emplace_back("dtype", onnxTypeOf(*parseDType(*text)));
    } else {
      node.attrs.push_back(attr);
    }
  }
  writer.addNode(op, std::move(node));
}

/// Whether the standard has the node that stands directly for the op in types that hold the op's.
bool hasTypes(const ir::Graph& graph, const ir::Op& op) {
  const std::string_view name = standardName(*op.def);
  const StandardForm* form = findForm(op.def->name);
  if (name.empty() || (form != nullptr && form->write != nullptr)) {
    return true;
  }
  NodeTypes types;
  for (const TensorType& type : graph.inputTypes(op)) {
    types.inputs.emplace_back(type.dtype);
  }
  for (const TensorType& type : op.outputs) {
    types.outputs.push_back(type.dtype);
  }
  return standardTypes(name, types).has_value();
}

std::vector<Value> partsOf(ir::GraphBuilder& b, const UsedGraph& used, const ir::Op& op) {
  const bool given = op.is(ir::kInput) || op.is(ir::kVariable) || op.is(ir::kConstant);
  if (given || op.def->traits.effect ||
      (fitOf(used, op) != Fit::None && hasTypes(used.graph, op))) {
    return {};
  }
  const std::vector<TensorType> types = used.graph.inputTypes(op);
  const Whole whole{b, ir::view(op, types), op.inputs};
  const StandardForm* form = findForm(op.def->name);
  if (form != nullptr && form->parts != nullptr) {
    return form->parts(whole);
  }
  return op.def->decompose == nullptr ? std::vector<Value>()
                                      : op.def->decompose(b, whole.op, whole.inputs);
}

}  // namespace

bool UsedGraph::isRead(Value value) const {
  return !users.of(value).empty() || users.isOutput(value);
}

bool UsedGraph::isReadBy(Value value, const ir::OpDef& def) const {
  return std::ranges::any_of(users.of(value),
                             [&](const ir::Use& use) { return graph.op(use.op).is(def); });
}

Value Whole::wide(std::size_t input) const {
  const DType dtype = op.inputs[input].dtype;
  const bool half = dtype == DType::F16 || dtype == DType::BF16;
  return half ? ops::cast(b, inputs[input], DType::F32) : inputs[input];
}

Value Whole::rounded(Value value) const {
  return ops::cast(b, value, op.outputs[0].dtype);
}

Fit fitOf(const UsedGraph& graph, const ir::Op& op) {
  const StandardForm* form = findForm(op.def->name);
  if (form == nullptr) {
    return directFit(op);
  }
  if (form->fit != nullptr) {
    return form->fit(graph, op);
  }
  return form->write == nullptr ? Fit::None : Fit::Same;
}

Fit fitOfReals(std::span<const double> numbers) {
  const bool kept = std::ranges::all_of(
      numbers, [](double number) { return decimalDouble(static_cast<float>(number)) == number; });
  return kept ? Fit::Same : Fit::Values;
}

Fit directFit(const ir::Op& op) {
  if (standardName(*op.def).empty() || op.def->traits.random) {
    return Fit::None;
  }
  Fit fit = Fit::Same;
  for (const ir::NamedAttr& attr : op.attrs) {
    if (const auto* real = std::get_if<double>(&attr.value)) {
      fit = std::min(fit, fitOfReals(std::span(real, 1)));
    }
  }
  return fit;
}

void writeForm(ModelWriter& writer, const ir::Op& op) {
  const StandardForm* form = findForm(op.def->name);
  if (form != nullptr && form->write != nullptr) {
    form->write(writer, op);
  } else {
    writeDirectly(writer, op);
  }
}

void replaceByStandardOps(ir::Graph& graph) {
  shareMasks(graph);
  int rounds = 0;
  bool changed = true;
  while (changed) {
    const ir::Users users = graph.users();
    const UsedGraph used{graph, users};
    changed = transforms::replaceByParts(
        graph, [&](ir::GraphBuilder& b, const ir::Op& op) { return partsOf(b, used, op); });
    transforms::eliminateDead(graph);
    SLUICE_CHECK(++rounds <= kMaxRounds, "an op of graph '{}' is made of itself", graph.name());
  }
}

}  // namespace sluice::onnx
