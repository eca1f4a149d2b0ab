#include "sluice/onnx/translations.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/onnx/files.h"
#include "sluice/ops/op_list.h"

namespace sluice::onnx {
namespace {

using Key = std::pair<std::string_view, std::string_view>;  // domain, op

std::map<Key, const Translation*> indexTranslations() {
  std::map<Key, const Translation*> index;
  for (const auto family :
       {controlTranslations(),       elementwiseTranslations(),  imageTranslations(),
        indexingTranslations(),      linearTranslations(),       lossTranslations(),
        mathTranslations(),          nnTranslations(),           normTranslations(),
        poolTranslations(),          randomTranslations(),       recurrentTranslations(),
        reductionTranslations(),     sequenceTranslations(),     shapeTranslations(),
        signalTranslations(),        trainingTranslations(),     vendorIndexingTranslations(),
        vendorReplicaTranslations(), vendorStreamTranslations(), vendorTranslations()}) {
    for (const Translation& translation : family) {
      const bool fresh =
          index.emplace(Key{translation.domain, translation.op}, &translation).second;
      SLUICE_CHECK(fresh, "{} has two translations", translation.op);
    }
  }
  return index;
}

std::map<Key, const ir::OpDef*> indexOps() {
  std::map<Key, const ir::OpDef*> index;
  for (const ir::OpDef* def : ops::opSet().all()) {
    for (const ir::OnnxName& name : def->onnx) {
      index.emplace(Key{name.domain, name.name}, def);
    }
  }
  return index;
}

const std::map<Key, const Translation*>& translations() {
  static const auto kIndex = indexTranslations();
  return kIndex;
}

const std::map<Key, const ir::OpDef*>& directOps() {
  static const auto kIndex = indexOps();
  return kIndex;
}

/// Some of our ops have names of later opsets than those that are read.
bool inTheStandard(const Key& key, const ir::OpDef& def) {
  return !key.first.empty() || std::ranges::any_of(def.onnx, [&](const ir::OnnxName& name) {
    return name.domain == key.first && name.name == key.second && name.since <= kNewestOpset;
  });
}

/// The attribute as the op's schema has it: ONNX writes truth values as numbers.
ir::Attr convert(const ir::AttrSpec& spec, const ir::Attr& attr) {
  if (spec.kind == ir::AttrKind::Bool && kindOf(attr) == ir::AttrKind::Int) {
    return std::get<std::int64_t>(attr) != 0;
  }
  if (spec.kind == ir::AttrKind::Text && kindOf(attr) == ir::AttrKind::Int &&
      spec.name == "dtype") {
    return std::string(name(dtypeOf(std::get<std::int64_t>(attr))));
  }
  return attr;
}

/// The inverse of how the exporter writes our attributes.
ir::Attr ownAttr(const ir::AttrSpec& spec, const ir::Attr& attr) {
  const auto* tensor = std::get_if<HostTensor>(&attr);
  if (tensor != nullptr && spec.kind == ir::AttrKind::Real && tensor->shape().elements() == 1) {
    return tensor->at(0);
  }
  if (tensor != nullptr && spec.kind == ir::AttrKind::Reals) {
    return tensor->toDoubles();
  }
  return spec.name == "dtype" ? attr : convert(spec, attr);
}

std::vector<Value> inputsOf(Node& node) {
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < node.numInputs(); ++i) {
    inputs.push_back(node.input(i));
  }
  return inputs;
}

}  // namespace

const Translation* findTranslation(std::string_view domain, std::string_view op) {
  const auto found = translations().find({domain, op});
  return found == translations().end() ? nullptr : found->second;
}

const ir::OpDef* findDirect(std::string_view domain, std::string_view op) {
  const auto found = directOps().find({domain, op});
  return found == directOps().end() ? nullptr : found->second;
}

std::vector<std::string> readableOps(std::string_view domain) {
  std::set<std::string> names;
  for (const auto& [key, translation] : translations()) {
    if (key.first == domain) {
      names.emplace(key.second);
    }
  }
  for (const auto& [key, def] : directOps()) {
    if (key.first == domain && inTheStandard(key, *def)) {
      names.emplace(key.second);
    }
  }
  return {names.begin(), names.end()};
}

std::vector<Value> translateDirectly(Node& node, const ir::OpDef& def) {
  ir::Attrs attrs;
  for (const ir::AttrSpec& spec : def.attrs) {
    if (const ir::Attr* attr = node.find(spec.name)) {
      attrs.set({spec.name, convert(spec, *attr)});
    }
  }
  for (const ir::NamedAttr& attr : node.attrs()) {
    // Files of the first opsets say where results may take an operand's memory.
    if (attrs.find(attr.name) == nullptr && attr.name != "consumed_inputs") {
      raise<Unsupported>("attribute '{}' is not supported", attr.name);
    }
  }
  if (def.traits.random) {
    attrs.set({"ordinal", node.b.nextRandomOrdinal()});
  }
  return node.b.addMany(def, inputsOf(node), std::move(attrs));
}

std::vector<Value> translateCustom(Node& node,
                                   const ops::CustomOpInfo& op,
                                   const std::vector<TensorType>& examples) {
  ops::CustomOpUse use{.name = std::string(op.name),
                       .domain = std::string(op.domain),
                       .version = op.version,
                       .exampleOutputs = examples};
  for (const ir::NamedAttr& attr : node.attrs()) {
    use.attributes.push_back({attr.name, attr.value});
  }
  if (!op.infersTypes && examples.empty()) {
    raise<Unsupported>("{} infers no types, and the file does not give those of its results",
                       op.def->name);
  }
  return ops::customOp(node.b, inputsOf(node), use);
}

std::vector<Value> translateOwn(Node& node) {
  const ir::OpDef* def = ops::opSet().find(node.op());
  if (def == nullptr || def->infer == nullptr || def->traits.effect) {
    raise<Unsupported>("there is no op '{}' in the domain of Sluice", node.op());
  }
  ir::Attrs attrs;
  for (const ir::NamedAttr& attr : node.attrs()) {
    const auto spec = std::ranges::find(def->attrs, attr.name, &ir::AttrSpec::name);
    attrs.set({attr.name, spec == def->attrs.end() ? attr.value : ownAttr(*spec, attr.value)});
  }
  return node.b.addMany(*def, inputsOf(node), std::move(attrs));
}

}  // namespace sluice::onnx
