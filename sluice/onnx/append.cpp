#include "sluice/onnx/append.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>

#include "sluice/base/error.h"
#include "sluice/onnx/files.h"
#include "sluice/onnx/node.h"
#include "sluice/onnx/proto.h"
#include "sluice/onnx/proto_attrs.h"

namespace sluice::onnx {
namespace {

std::string inputName(std::size_t i) {
  return fmt::format("input{}", i);
}

/// The value of an operand that is a constant or a weight.
std::optional<HostTensor> valueOf(const ir::Graph& graph, ir::Value value) {
  const ir::Op& op = graph.op(value.op);
  if (op.is(ir::kConstant)) {
    return op.attrs.tensor("value");
  }
  if (op.is(ir::kVariable)) {
    const ir::Variable* variable = graph.findVariable(op.attrs.text("var"));
    if (variable->initializer.kind == ir::Initializer::Kind::Tensor) {
      return variable->initializer.tensor;
    }
  }
  return std::nullopt;
}

/// The exporter leaves out inputs that nobody reads, but those of a body count by position.
void restoreInputs(pb::GraphProto& proto, const ir::Graph& body) {
  proto.clear_input();
  for (const ir::OpId id : body.inputs()) {
    const ir::Op& input = body.op(id);
    setType(*proto.add_input(), input.name, input.outputs[0]);
  }
}

/// The body as the exporter writes it, with the opsets that it needs.
void addBody(pb::ModelProto& model, std::string_view attr, const ir::Graph& body) {
  if (!body.variables().empty()) {
    raise<Unsupported>("graph '{}' has a weight '{}' of its own: make it an input of the graph",
                       body.name(),
                       body.variables()[0].name);
  }
  const std::string bytes = exportModelBytes(body, {.exact = Exact::Yes});
  const std::unique_ptr<pb::ModelProto> exported = parseModel(std::as_bytes(std::span(bytes)));
  pb::AttributeProto& proto = *model.mutable_graph()->mutable_node(0)->add_attribute();
  proto.set_name(std::string(attr));
  proto.set_type(pb::AttributeProto::GRAPH);
  *proto.mutable_g() = exported->graph();
  restoreInputs(*proto.mutable_g(), body);
  for (const pb::OperatorSetIdProto& opset : exported->opset_import()) {
    const bool known = std::ranges::any_of(
        model.opset_import(), [&](const auto& other) { return other.domain() == opset.domain(); });
    if (!known) {
      *model.add_opset_import() = opset;
    }
  }
}

/// A model of just this node.
pb::ModelProto modelOf(const ir::Graph& graph, const NodeCall& call) {
  pb::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(call.opset);
  if (!call.domain.empty()) {
    pb::OperatorSetIdProto& opset = *model.add_opset_import();
    opset.set_domain(std::string(call.domain));
    opset.set_version(1);
  }
  pb::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type(std::string(call.op));
  node.set_domain(std::string(call.domain));
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const auto constant = call.constants.find(i);
    const bool known = constant != call.constants.end();
    const bool given = known || call.inputs[i].valid();
    node.add_input(given ? inputName(i) : "");
    if (given) {
      setType(*model.mutable_graph()->add_input(),
              inputName(i),
              known ? constant->second.type() : graph.type(call.inputs[i]));
    }
  }
  for (const ir::NamedAttr& attr : call.attrs) {
    addNarrowAttr(node, attr);
  }
  for (const auto& [attr, body] : call.bodies) {
    addBody(model, attr, *body);
  }
  for (std::size_t i = 0; i < call.outputs; ++i) {
    node.add_output(fmt::format("output{}", i));
    model.mutable_graph()->add_output()->set_name(node.output(static_cast<int>(i)));
  }
  return model;
}

/// Imports, binding operands whose values are known as long as a translation needs them.
ImportedModel import(const ir::Graph& graph, const NodeCall& call) {
  const std::string bytes = modelOf(graph, call).SerializeAsString();
  ImportOptions options{.training = call.training};
  for (const auto& [i, value] : call.constants) {
    options.constants.insert_or_assign(inputName(i), value);
  }
  for (;;) {
    try {
      return importModelBytes(std::as_bytes(std::span(bytes)), options);
    } catch (const NeedsConstant& error) {
      const std::size_t before = options.constants.size();
      for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const auto& wanted = error.inputs();
        if (std::find(wanted.begin(), wanted.end(), inputName(i)) == wanted.end()) {
          continue;
        }
        if (std::optional<HostTensor> value = valueOf(graph, call.inputs[i])) {
          options.constants.insert_or_assign(inputName(i), *std::move(value));
        }
      }
      if (options.constants.size() == before) {
        throw;
      }
    }
  }
}

}  // namespace

std::vector<ir::Value> appendNode(ir::GraphBuilder& builder, const NodeCall& call) {
  const ImportedModel model = import(builder.graph(), call);
  // Ops that share an ordinal, such as a dropout and its mask, still do.
  const std::int64_t firstOrdinal = builder.nextRandomOrdinal();
  std::unordered_map<ir::Value, ir::Value> copies;
  for (const ir::OpId id : model.graph.order()) {
    const ir::Op& op = model.graph.op(id);
    if (op.is(ir::kInput)) {
      const std::size_t index = std::stoul(op.name.substr(inputName(0).size() - 1));
      copies.emplace(op.out(), call.inputs[index]);
      continue;
    }
    std::vector<ir::Value> inputs;
    for (const ir::Value input : op.inputs) {
      inputs.push_back(copies.at(input));
    }
    ir::Attrs attrs = op.attrs;
    if (op.def->traits.random) {
      attrs.set({"ordinal", firstOrdinal + op.attrs.integer("ordinal")});
    }
    const std::vector<ir::Value> results =
        op.is(ir::kConstant) ? std::vector{builder.constant(attrs.tensor("value"))}
                             : builder.addMany(*op.def, std::move(inputs), std::move(attrs));
    for (std::size_t i = 0; i < results.size(); ++i) {
      copies.emplace(op.out(i), results[i]);
    }
  }
  std::vector<ir::Value> results;
  for (const ir::Output& output : model.graph.outputs()) {
    results.push_back(copies.at(output.value));
  }
  return results;
}

}  // namespace sluice::onnx
