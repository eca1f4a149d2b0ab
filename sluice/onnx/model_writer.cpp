#include "sluice/onnx/model_writer.h"

#include <algorithm>
#include <limits>
#include <map>

#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/onnx/node.h"
#include "sluice/onnx/node_types.h"
#include "sluice/onnx/placement_attrs.h"
#include "sluice/onnx/proto_attrs.h"
#include "sluice/onnx/running_norm.h"
#include "sluice/transforms/eliminate_dead.h"

namespace sluice::onnx {
namespace {

constexpr int kIrVersion = 8;

}  // namespace

ModelWriter::ModelWriter(const ir::Graph& graph, const ExportOptions& options)
    : graph_(graph), options_(options), users_(graph.users()), used_{graph_, users_} {
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
      const int before = model_.graph().node_size();
      addOp(op);
      for (int i = before; options_.placements && i < model_.graph().node_size(); ++i) {
        writePlacement(*model_.mutable_graph()->mutable_node(i), op.place);
      }
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
  // Protobuf writes nothing at all for a message that is too large.
  if (constexpr std::size_t kLargest = std::numeric_limits<std::int32_t>::max();
      model_.ByteSizeLong() > kLargest) {
    raise<Unsupported>(
        "export: the model has {} bytes, and a file of protobuf holds at most {}; save the weights "
        "with stateDict instead",
        model_.ByteSizeLong(),
        kLargest);
  }
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

/// A file has one tensor per name, and these names are seen from outside.
void ModelWriter::requireOwnNames() const {
  const auto refuse = [](const std::string& name, std::string_view first, std::string_view second) {
    raise<InvalidArgument>(
        "export: '{}' is the name of {} and of {}, and a file has one tensor of a name: give one "
        "of "
        "them another name",
        name,
        first,
        second);
  };
  std::map<std::string, ir::Value, std::less<>> inputs;
  for (const ir::OpId id : graph_.inputs()) {
    const ir::Op& input = graph_.op(id);
    inputs.emplace(input.name, input.out());
  }
  for (const ir::Variable& variable : graph_.variables()) {
    if (inputs.contains(variable.name)) {
      refuse(variable.name, "an input", "a variable");
    }
  }
  for (const ir::Output& output : graph_.outputs()) {
    if (const auto input = inputs.find(output.name);
        input != inputs.end() && input->second != output.value) {
      refuse(output.name, "an input", "another value's output");
    }
  }
}

void ModelWriter::nameValues() {
  requireOwnNames();
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
  giveWantedNames();
  for (const ir::OpId id : graph_.order()) {
    const ir::Op& op = graph_.op(id);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if (op.is(ir::kVariable)) {
        names_.emplace(op.out(i), op.attrs.text("var"));
      } else if (!names_.contains(op.out(i))) {
        names_.emplace(op.out(i), freeName(op.name.empty() ? op.def->name : op.name));
      }
      dtypes_.emplace(names_.at(op.out(i)), op.outputs[i].dtype);
    }
  }
}

void ModelWriter::giveWantedNames() {
  for (const ir::OpId id : graph_.order()) {
    const ir::Op& op = graph_.op(id);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const ir::Value value = op.out(i);
      const auto wanted = options_.names.find(value);
      if (wanted != options_.names.end() && !op.is(ir::kVariable) && !names_.contains(value) &&
          taken_.insert(wanted->second).second) {
        names_.emplace(value, wanted->second);
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
  dtypes_.emplace(name, value.dtype());
  if (isFloat(value.dtype()) && options_.exact == Exact::No) {
    // What reads the file may cast it first, and initializers of float types are weights.
    addPlainNode({"Constant", {}, {{"value", value}}}, {name});
  } else {
    *model_.mutable_graph()->add_initializer() = toTensorProto(value, name);
  }
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

std::string ModelWriter::newName(DType dtype) {
  std::string name = freeName("helper");
  dtypes_.emplace(name, dtype);
  return name;
}

void ModelWriter::addPlainNode(const NewNode& node, const std::vector<std::string>& results) {
  pb::NodeProto& proto = *model_.mutable_graph()->add_node();
  proto.set_op_type(std::string(node.op));
  proto.set_name(results[0]);
  for (const std::string& input : node.inputs) {
    proto.add_input(input);
  }
  for (const std::string& result : results) {
    proto.add_output(result);
  }
  for (const ir::NamedAttr& attr : node.attrs) {
    addNarrowAttr(proto, attr);
  }
  if (!node.note.empty()) {
    proto.set_doc_string(node.note);
  }
}

void ModelWriter::addNode(NewNode node, const std::vector<std::string>& results) {
  if (options_.exact == Exact::Yes) {
    return addPlainNode(node, results);
  }
  NodeTypes given;
  for (const std::string& input : node.inputs) {
    given.inputs.push_back(input.empty() ? std::nullopt : std::optional(dtypes_.at(input)));
  }
  for (const std::string& result : results) {
    given.outputs.push_back(dtypes_.at(result));
  }
  const NodeTypes types = standardTypes(node.op, given).value_or(given);
  const auto cast = [](const std::string& from, DType to) {
    return NewNode{"Cast", {from}, {{"to", onnxTypeOf(to)}}};
  };
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (types.inputs[i] != given.inputs[i]) {
      node.inputs[i] = addHelper(cast(node.inputs[i], *types.inputs[i]), *types.inputs[i]);
    }
  }
  std::vector<std::string> made = results;
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i] = types.outputs[i] == given.outputs[i] ? made[i] : newName(types.outputs[i]);
  }
  addPlainNode(node, made);
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i] != results[i]) {
      addPlainNode(cast(made[i], given.outputs[i]), {results[i]});
    }
  }
}

void ModelWriter::addNode(const ir::Op& op, NewNode node) {
  const std::size_t count = node.outputs == 0 ? op.outputs.size() : node.outputs;
  std::vector<std::string> results;
  for (std::size_t i = 0; i < count; ++i) {
    results.push_back(names_.at(op.out(i)));
  }
  addNode(std::move(node), results);
}

std::string ModelWriter::addHelper(NewNode node, std::optional<DType> dtype) {
  std::string name = newName(dtype ? *dtype : dtypes_.at(node.inputs[0]));
  addNode(std::move(node), {name});
  return name;
}

bool ModelWriter::isStandard(const ir::Op& op) const {
  const Fit fit = fitOf(used_, op);
  return options_.exact == Exact::Yes ? fit == Fit::Same : fit != Fit::None;
}

void ModelWriter::addOp(const ir::Op& op) {
  if (op.is(ir::kInput)) {
    if (used_.isRead(op.out())) {
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
  if (isStandard(op)) {
    return writeForm(*this, op);
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
  joinRunningStatistics(live);
  if (options.exact == Exact::No) {
    replaceByStandardOps(live);
  }
  return ModelWriter(live, options).run();
}

void exportModel(const ir::Graph& graph,
                 const std::filesystem::path& path,
                 const ExportOptions& options) {
  writeFileAtomically(path, exportModelBytes(graph, options));
}

}  // namespace sluice::onnx
