#include "sluice/onnx/proto_node.h"

#include <onnx/defs/function.h>
#include <onnx/defs/schema.h>

#include "sluice/base/error.h"
#include "sluice/onnx/placement_attrs.h"
#include "sluice/onnx/sequence.h"

namespace sluice::onnx {
namespace {

std::vector<double> decimalDoubles(const google::protobuf::RepeatedField<float>& values) {
  std::vector<double> result;
  for (const float value : values) {
    result.push_back(decimalDouble(value));
  }
  return result;
}

/// Nothing for bodies, which stay in the proto.
std::optional<ir::Attr> toAttr(const pb::AttributeProto& proto, GraphImporter& importer) {
  switch (proto.type()) {
    case pb::AttributeProto::FLOAT:
      return decimalDouble(proto.f());
    case pb::AttributeProto::INT:
      return std::int64_t{proto.i()};
    case pb::AttributeProto::STRING:
      return proto.s();
    case pb::AttributeProto::TENSOR:
      return importer.tensorOf(proto.t());
    case pb::AttributeProto::FLOATS:
      return decimalDoubles(proto.floats());
    case pb::AttributeProto::INTS:
      return std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
    case pb::AttributeProto::STRINGS:
      return std::vector<std::string>(proto.strings().begin(), proto.strings().end());
    case pb::AttributeProto::GRAPH:
      return std::nullopt;
    default:
      raise<Unsupported>("attribute '{}' is of a kind that is not supported", proto.name());
  }
}

/// As the standard writes it; of a sequence, with the type of its first element.
pb::TypeProto typeOf(const ir::Graph& graph, Value value) {
  pb::TypeProto proto;
  if (isSequence(graph, value)) {
    const std::vector<Value> elements = elementsOf(graph, value);
    pb::TypeProto* element = proto.mutable_sequence_type()->mutable_elem_type();
    *element = elements.empty() ? pb::TypeProto() : typeOf(graph, elements[0]);
    return proto;
  }
  const TensorType& type = graph.type(value);
  proto.mutable_tensor_type()->set_elem_type(static_cast<int>(onnxTypeOf(type.dtype)));
  proto.mutable_tensor_type()->mutable_shape();
  for (const std::int64_t extent : type.shape.dims()) {
    proto.mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(extent);
  }
  return proto;
}

}  // namespace

ir::Attrs GraphImporter::attributes(const pb::NodeProto& node, const Scope& scope) {
  constexpr int kMostAttrs = 1024;  // they are kept sorted
  if (node.attribute_size() > kMostAttrs) {
    raise<InvalidArgument>(
        "the node has {} attributes, expected at most {}", node.attribute_size(), kMostAttrs);
  }
  ir::Attrs attrs;
  for (const pb::AttributeProto& proto : node.attribute()) {
    if (isAnnotation(proto.name())) {
      continue;
    }
    if (!proto.ref_attr_name().empty()) {
      const ir::Attr* given =
          scope.callAttrs == nullptr ? nullptr : scope.callAttrs->find(proto.ref_attr_name());
      if (given != nullptr) {
        attrs.set({proto.name(), *given});
      }
    } else if (std::optional<ir::Attr> attr = toAttr(proto, *this)) {
      attrs.set({proto.name(), *std::move(attr)});
    }
  }
  return attrs;
}

ProtoNode::ProtoNode(GraphImporter& importer,
                     const pb::NodeProto& proto,
                     Scope& scope,
                     const pb::OpSchema* schema,
                     int version)
    : Node(importer.builder()),
      importer_(importer),
      proto_(proto),
      scope_(scope),
      schema_(schema),
      version_(version),
      attrs_(importer.attributes(proto, scope)) {
  if (schema == nullptr) {
    return;
  }
  if (numInputs() < static_cast<std::size_t>(schema->min_input()) ||
      numInputs() > static_cast<std::size_t>(schema->max_input())) {
    raise<InvalidArgument>("expected {} to {} operands, got {}",
                           schema->min_input(),
                           schema->max_input(),
                           numInputs());
  }
  for (const auto& [name, attribute] : schema->attributes()) {
    const bool given = attrs_.find(name) != nullptr;
    if (!given && attribute.default_value.type() != pb::AttributeProto::UNDEFINED) {
      if (std::optional<ir::Attr> attr = toAttr(attribute.default_value, importer)) {
        defaults_.set({name, *std::move(attr)});
      }
    }
  }
  for (const ir::NamedAttr& attr : attrs_) {
    const auto known = schema->attributes().find(attr.name);
    if (known == schema->attributes().end()) {
      raise<InvalidArgument>("the op has no attribute '{}'", attr.name);
    }
  }
}

bool ProtoNode::has(std::size_t input) const {
  return input < numInputs() && !proto_.input(static_cast<int>(input)).empty();
}

bool ProtoNode::wants(std::size_t output) const {
  return output < numOutputs() && !proto_.output(static_cast<int>(output)).empty();
}

Scope::Tensor& ProtoNode::tensor(std::size_t i) const {
  if (!has(i)) {
    raise<InvalidArgument>("operand {} is missing", i);
  }
  const std::string& name = proto_.input(static_cast<int>(i));
  Scope::Tensor* found = importer_.find(scope_, name);
  if (found == nullptr) {
    raise<InvalidArgument>("operand {} ('{}') is made by no earlier node", i, name);
  }
  return *found;
}

Value ProtoNode::input(std::size_t i) {
  return importer_.read(tensor(i));
}

Value ProtoNode::buffer(std::size_t i) {
  return importer_.readBuffer(tensor(i), proto_.input(static_cast<int>(i)));
}

std::optional<HostTensor> ProtoNode::tryConstant(std::size_t i, std::vector<std::string>& inputs) {
  const Scope::Tensor& found = tensor(i);
  if (found.initializer != nullptr) {
    return importer_.tensorOf(*found.initializer);
  }
  return importer_.evaluate(found.value, inputs);
}

HostTensor ProtoNode::constant(std::size_t i) {
  std::vector<std::string> inputs;
  std::optional<HostTensor> value = tryConstant(i, inputs);
  if (!value) {
    throw NeedsConstant(
        fmt::format("operand {} ('{}') must not depend on the model's inputs: bind those it "
                    "depends on in ImportOptions.constants",
                    i,
                    proto_.input(static_cast<int>(i))),
        std::move(inputs));
  }
  return *std::move(value);
}

bool ProtoNode::isConstant(std::size_t i) {
  const Scope::Tensor& found = tensor(i);
  return found.initializer != nullptr || !importer_.isComputed(found.value);
}

HostTensor ProtoNode::evaluate(Value value) {
  std::vector<std::string> inputs;
  std::optional<HostTensor> result = importer_.evaluate(value, inputs);
  if (!result) {
    throw NeedsConstant(
        "a value that must be known depends on the model's inputs: bind those in "
        "ImportOptions.constants",
        std::move(inputs));
  }
  return *std::move(result);
}

bool ProtoNode::canEvaluate(Value value) {
  return !importer_.isComputed(value);
}

void ProtoNode::countConstant(double elements, DType dtype) {
  importer_.countConstant(elements * static_cast<double>(byteSize(dtype)));
  importer_.countWork(elements);
}

Value ProtoNode::named(const std::string& tensor) {
  Scope::Tensor* found = importer_.find(scope_, tensor);
  if (found == nullptr) {
    raise<InvalidArgument>("tensor '{}' is made by no earlier node", tensor);
  }
  return importer_.read(*found);
}

const ir::Attr* ProtoNode::find(std::string_view attr) const {
  const ir::Attr* given = attrs_.find(attr);
  return given != nullptr ? given : defaults_.find(attr);
}

const pb::GraphProto& ProtoNode::body(std::string_view attr) const {
  for (const pb::AttributeProto& proto : proto_.attribute()) {
    if (proto.name() == attr && proto.type() == pb::AttributeProto::GRAPH) {
      return proto.g();
    }
  }
  raise<InvalidArgument>("the node has no body '{}'", attr);
}

std::size_t ProtoNode::bodyInputs(std::string_view attr) const {
  return static_cast<std::size_t>(body(attr).input_size());
}

std::vector<Value> ProtoNode::inlineBody(std::string_view attr, std::span<const Value> inputs) {
  return importer_.inlineGraph(body(attr), inputs, scope_);
}

void ProtoNode::requireTensors() const {
  for (std::size_t i = 0; i < numInputs(); ++i) {
    if (!has(i)) {
      continue;
    }
    const Scope::Tensor& found = tensor(i);
    if (found.value.valid() && isSequence(b.graph(), found.value)) {
      raise<Unsupported>("operand {} is a sequence of tensors", i);
    }
  }
}

void ProtoNode::requireNoBodies() const {
  for (const pb::AttributeProto& proto : proto_.attribute()) {
    if (proto.type() == pb::AttributeProto::GRAPH) {
      raise<Unsupported>("attribute '{}' is a graph, which custom ops cannot have", proto.name());
    }
  }
}

std::vector<std::optional<Value>> ProtoNode::operands() {
  std::vector<std::optional<Value>> values;
  for (std::size_t i = 0; i < numInputs(); ++i) {
    values.push_back(has(i) ? std::optional(input(i)) : std::nullopt);
  }
  return values;
}

std::vector<Value> ProtoNode::expandFunction() {
  pb::FunctionProto function;
  if (schema_->HasFunction()) {
    function = *schema_->GetFunction();
  } else {
    std::vector<pb::TypeProto> types(numInputs());
    for (std::size_t i = 0; i < numInputs(); ++i) {
      if (has(i)) {
        types[i] = typeOf(b.graph(), input(i));
      }
    }
    const pb::FunctionBodyBuildContextImpl context(proto_, types);
    if (!schema_->BuildContextDependentFunction(context, function)) {
      raise<Unsupported>("the op has no definition in simpler ops for these operands");
    }
  }
  if (function.opset_import_size() == 0) {
    for (const auto& [domain, version] : scope_.opsets) {
      auto* opset = function.add_opset_import();
      opset->set_domain(domain);
      opset->set_version(version);
    }
  }
  ir::Attrs all = defaults_;
  for (const ir::NamedAttr& attr : attrs_) {
    all.set(attr);
  }
  return importer_.inlineFunction(importer_.keep(std::move(function)), operands(), all);
}

}  // namespace sluice::onnx
