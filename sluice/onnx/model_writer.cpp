#include "sluice/onnx/model_writer.h"

#include <algorithm>
#include <map>

#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/onnx/node.h"
#include "sluice/transforms/eliminate_dead.h"

namespace sluice::onnx {
namespace {

constexpr int kIrVersion = 8;

/// Reals that a 32-bit attribute would change are tensors of 64 bits.
void setReal(pb::AttributeProto& proto, double value) {
  if (decimalDouble(static_cast<float>(value)) == value) {
    proto.set_type(pb::AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(value));
  } else {
    proto.set_type(pb::AttributeProto::TENSOR);
    *proto.mutable_t() = toTensorProto(HostTensor::scalar(value), "");
  }
}

struct SetAttr {
  pb::AttributeProto& proto;

  void operator()(std::int64_t value) const {
    proto.set_type(pb::AttributeProto::INT);
    proto.set_i(value);
  }
  void operator()(bool value) const { (*this)(std::int64_t{value ? 1 : 0}); }
  void operator()(double value) const { setReal(proto, value); }
  void operator()(const std::string& value) const {
    proto.set_type(pb::AttributeProto::STRING);
    proto.set_s(value);
  }
  void operator()(const std::vector<std::int64_t>& values) const {
    proto.set_type(pb::AttributeProto::INTS);
    proto.mutable_ints()->Assign(values.begin(), values.end());
  }
  void operator()(const std::vector<double>& values) const {
    proto.set_type(pb::AttributeProto::TENSOR);
    *proto.mutable_t() =
        toTensorProto(HostTensor::of<double>(Shape{static_cast<std::int64_t>(values.size())},
                                             std::span<const double>(values)),
                      "");
  }
  void operator()(const std::vector<std::string>& values) const {
    proto.set_type(pb::AttributeProto::STRINGS);
    for (const std::string& value : values) {
      proto.add_strings(value);
    }
  }
  void operator()(const HostTensor& value) const {
    proto.set_type(pb::AttributeProto::TENSOR);
    *proto.mutable_t() = toTensorProto(value, "");
  }
  void operator()(const ir::GraphRef& /*body*/) const {
    raise<Unsupported>("export: attribute '{}' is a body, which has no form in a file",
                       proto.name());
  }
};

}  // namespace

void addAttr(pb::NodeProto& node, const ir::NamedAttr& attr) {
  pb::AttributeProto& proto = *node.add_attribute();
  proto.set_name(attr.name);
  std::visit(SetAttr{proto}, attr.value);
}

void addNarrowAttr(pb::NodeProto& node, const ir::NamedAttr& attr) {
  if (const auto* number = std::get_if<double>(&attr.value)) {
    pb::AttributeProto& proto = *node.add_attribute();
    proto.set_name(attr.name);
    proto.set_type(pb::AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(*number));
  } else if (const auto* numbers = std::get_if<std::vector<double>>(&attr.value)) {
    pb::AttributeProto& proto = *node.add_attribute();
    proto.set_name(attr.name);
    proto.set_type(pb::AttributeProto::FLOATS);
    for (const double value : *numbers) {
      proto.add_floats(static_cast<float>(value));
    }
  } else {
    addAttr(node, attr);
  }
}

void setType(pb::ValueInfoProto& info, const std::string& name, const TensorType& type) {
  info.set_name(name);
  pb::TypeProto_Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(static_cast<int>(onnxTypeOf(type.dtype)));
  tensor.mutable_shape();  // a scalar has a shape without dimensions
  for (const std::int64_t extent : type.shape.dims()) {
    tensor.mutable_shape()->add_dim()->set_dim_value(extent);
  }
}

ModelWriter::ModelWriter(const ir::Graph& graph, const ExportOptions& options)
    : graph_(graph), options_(options), users_(graph.users()) {
  model_.set_ir_version(kIrVersion);
  model_.set_producer_name("sluice");
  model_.mutable_graph()->set_name(graph.name().empty() ? "main" : graph.name());
}

std::string ModelWriter::run() {
  nameValues();
  for (const ir::Variable& variable : graph_.variables()) {
    if (variable.role == ir::VariableRole::Weight || variable.role == ir::VariableRole::Buffer) {
      addInitializer(variable);
    }
  }
  for (const ir::OpId id : graph_.order()) {
    const ir::Op& op = graph_.op(id);
    try {
      addOp(op);
    } catch (Error& error) {
      error.at(fmt::format("op '{}' ({})", op.name, op.def->name));
      throw;
    }
  }
  addOutputs();
  model_.add_opset_import()->set_version(kNewestOpset);
  if (usesOwnDomain_) {
    pb::OperatorSetIdProto& own = *model_.add_opset_import();
    own.set_domain(std::string(kOwnDomain));
    own.set_version(1);
  }
  addCustomDomains();
  return model_.SerializeAsString();
}

std::string ModelWriter::freeName(std::string_view stem) {
  std::string name(stem.empty() ? "tensor" : stem);
  if (!taken_.insert(name).second) {
    // Names stay taken, so the next search goes on where this one ends.
    std::int64_t& number = numbers_.try_emplace(std::string(stem), 1).first->second;
    do {
      name = fmt::format("{}_{}", stem, number++);
    } while (!taken_.insert(name).second);
  }
  return name;
}

void ModelWriter::nameValues() {
  // Names that others see come first; all remaining ones are made to differ from them.
  for (const ir::OpId id : graph_.inputs()) {
    const ir::Op& input = graph_.op(id);
    names_.emplace(input.out(), freeName(input.name));
  }
  for (const ir::Variable& variable : graph_.variables()) {
    taken_.insert(variable.name);
  }
  for (const ir::Output& output : graph_.outputs()) {
    const bool own = !names_.contains(output.value) &&
                     !graph_.op(output.value.op).is(ir::kVariable) && !taken_.contains(output.name);
    taken_.insert(output.name);
    if (own) {
      names_.emplace(output.value, output.name);
    }
  }
  for (const ir::OpId id : graph_.order()) {
    const ir::Op& op = graph_.op(id);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if (op.is(ir::kVariable)) {
        names_.emplace(op.out(i), op.attrs.text("var"));
      } else if (!names_.contains(op.out(i))) {
        names_.emplace(op.out(i), freeName(op.name.empty() ? op.def->name : op.name));
      }
    }
  }
}

void ModelWriter::addInput(const ir::Op& op) {
  setType(*model_.mutable_graph()->add_input(), names_.at(op.out()), op.outputs[0]);
}

void ModelWriter::addInitializer(const ir::Variable& variable) {
  const auto given = options_.values.find(variable.name);
  const HostTensor value =
      given != options_.values.end() ? given->second : ir::initialValue(variable, options_.seed);
  if (value.type() != variable.type) {
    raise<InvalidArgument>("export: variable '{}' is {}, its value {}",
                           variable.name,
                           variable.type.str(),
                           value.type().str());
  }
  pb::TensorProto& proto = *model_.mutable_graph()->add_initializer();
  proto = toTensorProto(value, variable.name);
  // What the standard has no word for: state that is not trained.
  if (variable.role == ir::VariableRole::Buffer) {
    proto.set_doc_string(std::string(kBufferMark));
  } else if (!variable.trainable) {
    proto.set_doc_string(std::string(kFrozenMark));
  }
}

std::vector<std::string> ModelWriter::operands(const ir::Op& op) const {
  std::vector<std::string> names;
  for (const ir::Value value : op.inputs) {
    names.push_back(names_.at(value));
  }
  return names;
}

std::string ModelWriter::constant(const HostTensor& value) {
  std::string name = freeName("constant");
  *model_.mutable_graph()->add_initializer() = toTensorProto(value, name);
  return name;
}

std::string ModelWriter::integers(const std::vector<std::int64_t>& values) {
  return constant(HostTensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(values.size())},
                                               std::span<const std::int64_t>(values)));
}

pb::NodeProto* ModelWriter::newNode(const ir::Op& op,
                                    std::string_view type,
                                    std::string_view domain) {
  pb::NodeProto* node = model_.mutable_graph()->add_node();
  node->set_op_type(std::string(type));
  node->set_domain(std::string(domain));
  node->set_name(names_.at(op.out()));
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    node->add_output(names_.at(op.out(i)));
  }
  return node;
}

void ModelWriter::fill(pb::NodeProto& proto, NewNode node) {
  for (std::string& input : node.inputs) {
    proto.add_input(std::move(input));
  }
  for (const ir::NamedAttr& attr : node.attrs) {
    addAttr(proto, attr);
  }
}

void ModelWriter::addNode(const ir::Op& op, NewNode node) {
  pb::NodeProto* proto = newNode(op, node.op, "");
  while (node.outputs != 0 && proto->output_size() > static_cast<int>(node.outputs)) {
    proto->mutable_output()->RemoveLast();
  }
  fill(*proto, std::move(node));
}

std::string ModelWriter::addHelper(NewNode node) {
  std::string name = freeName("helper");
  pb::NodeProto* proto = model_.mutable_graph()->add_node();
  proto->set_op_type(std::string(node.op));
  proto->set_name(name);
  proto->add_output(name);
  fill(*proto, std::move(node));
  return name;
}

bool ModelWriter::isRead(ir::Value value) const {
  return !users_.of(value).empty() || users_.isOutput(value);
}

bool ModelWriter::isReadBy(ir::Value value, const ir::OpDef& def) const {
  return std::ranges::any_of(users_.of(value),
                             [&](const ir::Use& use) { return graph_.op(use.op).is(def); });
}

void ModelWriter::addOp(const ir::Op& op) {
  if (op.is(ir::kInput)) {
    if (isRead(op.out())) {
      addInput(op);
    }
    return;
  }
  if (op.is(ir::kVariable)) {
    return;  // readers name the initializer
  }
  if (op.def->traits.effect) {
    raise<Unsupported>("export: the op writes state; export a graph traced for inference");
  }
  if (op.is(ir::kConstant)) {
    return addNode(op, {"Constant", {}, {{"value", op.attrs.tensor("value")}}});
  }
  if (addStandardForm(*this, op)) {
    return;
  }
  if (const ops::CustomOpInfo custom = ops::customOpOf(*op.def)) {
    return addCustomOp(op, custom);
  }
  usesOwnDomain_ = true;
  pb::NodeProto* node = newNode(op, op.def->name, kOwnDomain);
  for (std::string& input : operands(op)) {
    node->add_input(std::move(input));
  }
  for (const ir::NamedAttr& attr : op.attrs) {
    addAttr(*node, attr);
  }
}

void ModelWriter::addCustomOp(const ir::Op& op, const ops::CustomOpInfo& custom) {
  customOps_.push_back(custom);
  pb::NodeProto* node = newNode(op, custom.name, custom.domain);
  for (std::string& input : operands(op)) {
    node->add_input(std::move(input));
  }
  for (const ir::NamedAttr& attr : op.attrs) {
    if (!ops::carriesTypes(attr)) {
      addNarrowAttr(*node, attr);
    }
  }
  // Types of results are for a reader to whom the op does not tell them.
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    setType(*model_.mutable_graph()->add_value_info(), names_.at(op.out(i)), op.outputs[i]);
  }
}

/// A file has one version of a domain, and an op the greatest one up to it.
void ModelWriter::addCustomDomains() {
  std::map<std::string_view, std::int64_t> versions;
  for (const ops::CustomOpInfo& op : customOps_) {
    std::int64_t& version = versions[op.domain];
    version = std::max(version, op.version);
  }
  for (const ops::CustomOpInfo& op : customOps_) {
    const std::int64_t version = versions.at(op.domain);
    if (ops::resolveCustomOp(op.domain, op.name, version).def != op.def) {
      raise<Unsupported>(
          "export: the model uses {} and other ops of version {} of its domain, where there is a "
          "newer {}",
          op.def->name,
          version,
          op.name);
    }
  }
  for (const auto& [domain, version] : versions) {
    pb::OperatorSetIdProto& opset = *model_.add_opset_import();
    opset.set_domain(std::string(domain));
    opset.set_version(version);
  }
}

void ModelWriter::addOutputs() {
  for (const ir::Output& output : graph_.outputs()) {
    const std::string& name = names_.at(output.value);
    if (name != output.name) {  // an input, a weight, or a value that is an output twice
      pb::NodeProto* copy = model_.mutable_graph()->add_node();
      copy->set_op_type("Identity");
      copy->add_input(name);
      copy->add_output(output.name);
    }
    setType(*model_.mutable_graph()->add_output(), output.name, graph_.type(output.value));
  }
}

std::string exportModelBytes(const ir::Graph& graph, const ExportOptions& options) {
  ir::Graph live = graph;
  transforms::eliminateDead(live);  // a loss, say, that was added for training
  return ModelWriter(live, options).run();
}

void exportModel(const ir::Graph& graph,
                 const std::filesystem::path& path,
                 const ExportOptions& options) {
  writeFileAtomically(path, exportModelBytes(graph, options));
}

}  // namespace sluice::onnx
