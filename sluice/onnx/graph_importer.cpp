#include "sluice/onnx/graph_importer.h"

#include <algorithm>
#include <type_traits>

#include <fmt/ranges.h>
#include <onnx/defs/schema.h>

#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"
#include "sluice/onnx/model_writer.h"
#include "sluice/onnx/placement_attrs.h"
#include "sluice/onnx/proto_node.h"
#include "sluice/onnx/sequence.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/custom_op.h"
#include "sluice/ops/interpreter.h"
#include "sluice/transforms/eliminate_dead.h"

namespace sluice::onnx {
namespace {

constexpr int kOldestOpset = 1;
constexpr int kMaxDepth = 32;
constexpr int kMostOpsets = 256;

/// "node 'conv1' (Conv-11)".
std::string describe(const pb::NodeProto& node) {
  const std::string& name = !node.name().empty()     ? node.name()
                            : node.output_size() > 0 ? node.output(0)
                                                     : node.op_type();
  return fmt::format("node '{}' ({})", name, node.op_type());
}

/// The default domain has two spellings.
std::string domainOf(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

using NoTypes = std::vector<TensorType>;

/// What to do about an op of a domain in which we know none.
std::string customHint(const std::string& domain, int version) {
  if (!readableOps(domain).empty()) {
    return "";
  }
  const std::vector<std::string> names = ops::customOpNames();
  return fmt::format(
      "; if it is a custom op, load its library with loadCustomOps (the file wants version {} of "
      "domain {}, loaded are: {})",
      version,
      domain,
      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

/// In memory, of what is not shared.
std::size_t bytesOf(const ir::Attr& attr) {
  if (const auto* text = std::get_if<std::string>(&attr)) {
    return text->size();
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attr)) {
    std::size_t bytes = 0;
    for (const std::string& text : *texts) {
      bytes += sizeof(std::string) + text.size();
    }
    return bytes;
  }
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&attr)) {
    return numbers->size() * sizeof(std::int64_t);
  }
  const auto* numbers = std::get_if<std::vector<double>>(&attr);
  return numbers == nullptr ? sizeof(ir::Attr) : numbers->size() * sizeof(double);
}

/// Tensors are shared, and the nodes of bodies count by themselves.
std::size_t ownBytesOf(const pb::NodeProto& node) {
  std::size_t bytes = node.ByteSizeLong() - node.doc_string().size();  // nobody keeps that
  for (const pb::AttributeProto& attr : node.attribute()) {
    bytes -= attr.has_t() ? attr.t().ByteSizeLong() : 0;
    bytes -= attr.has_g() ? attr.g().ByteSizeLong() : 0;
    bytes += sizeof(std::int64_t) * static_cast<std::size_t>(attr.ints_size());
    bytes += sizeof(double) * static_cast<std::size_t>(attr.floats_size());
  }
  return bytes;
}

/// Of names, or of what has names.
std::size_t bytesOfNames(const auto& list) {
  std::size_t bytes = sizeof(Value) * static_cast<std::size_t>(list.size());
  for (const auto& item : list) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(item)>, std::string>) {
      bytes += item.size();
    } else {
      bytes += item.name().size();
    }
  }
  return bytes;
}

/// Every scope has them.
void requireFewOpsets(const auto& opsets) {
  if (opsets.size() > kMostOpsets) {
    raise<InvalidArgument>(
        "{} opsets are imported, expected at most {}", opsets.size(), kMostOpsets);
  }
}

class DepthGuard {
 public:
  explicit DepthGuard(int& depth) : depth_(depth) {
    if (++depth_ > kMaxDepth) {
      --depth_;
      raise<Unsupported>("bodies are nested more than {} deep", kMaxDepth);
    }
  }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  int& depth_;
};

}  // namespace

GraphImporter::GraphImporter(const pb::ModelProto& model,
                             const ImportOptions& options,
                             std::filesystem::path folder)
    : model_(model),
      options_(options),
      graph_(model.graph().name()),
      builder_(graph_),
      external_(std::move(folder)) {
  for (const pb::FunctionProto& function : model.functions()) {
    ownFunctions_.try_emplace({domainOf(function.domain()), function.name()}, &function);
  }
}

ImportedModel GraphImporter::run() {
  readOpsets();
  declareInputs(main_);
  declareInitializers(model_.graph(), main_);
  requireInitializers(options_.frozen, "frozen");
  requireInitializers(options_.buffers, "buffers");
  findStatistics(model_.graph().node());
  importNodes(model_.graph().node(), main_);
  if (model_.graph().output_size() == 0) {
    raise<InvalidArgument>("the model has no output");
  }
  for (const pb::ValueInfoProto& output : model_.graph().output()) {
    Scope::Tensor* tensor = find(main_, output.name());
    if (tensor == nullptr) {
      raise<InvalidArgument>("output '{}' of the model is made by no node", output.name());
    }
    const Value value = read(*tensor);
    if (isSequence(graph_, value)) {
      raise<Unsupported>("output '{}' of the model is a sequence", output.name());
    }
    graph_.addOutput(output.name(), value);
  }
  transforms::eliminateDead(graph_);
  settleStatistics();
  ImportedModel result;
  result.producer = model_.producer_name();
  result.opset = main_.opsets.contains("") ? main_.opsets.at("") : 0;
  for (const std::string& name : names_) {
    const Scope::Tensor& tensor = main_.tensors.at(name);
    const bool read = tensor.value.valid() && graph_.contains(tensor.value.op);
    const Value value = read ? tensor.value : tensor.buffer;
    if (value.valid() && graph_.contains(value.op)) {
      result.tensors.push_back({name, value});
    }
  }
  result.graph = std::move(graph_);
  return result;
}

void GraphImporter::readOpsets() {
  requireFewOpsets(model_.opset_import());
  for (const pb::OperatorSetIdProto& opset : model_.opset_import()) {
    const std::string domain = domainOf(opset.domain());
    const std::int64_t version = opset.version();
    if (domain.empty() && options_.strictOpVersions &&
        (version < kOldestOpset || version > kNewestOpset)) {
      raise<Unsupported>(
          "the model uses opset {}, supported are {} to {}; strictOpVersions = false tries the "
          "nearest",
          version,
          kOldestOpset,
          kNewestOpset);
    }
    main_.opsets[domain] = std::min<std::int64_t>(version, domain.empty() ? kNewestOpset : version);
  }
  if (main_.opsets.empty()) {
    main_.opsets[""] = 1;
    if (options_.strictOpVersions) {
      raise<InvalidArgument>("the model says no opset version");
    }
  }
}

Scope::Tensor* GraphImporter::find(Scope& scope, const std::string& name) {
  for (Scope* at = &scope; at != nullptr; at = at->parent) {
    const auto found = at->tensors.find(name);
    if (found != at->tensors.end()) {
      return &found->second;
    }
  }
  return nullptr;
}

bool GraphImporter::isComputed(Value value) {
  // Ids grow in the order of making; ops that became the body of a loop are gone.
  for (; classified_ < graph_.numIds(); ++classified_) {
    const ir::OpId id(classified_);
    if (!graph_.contains(id)) {
      continue;
    }
    const ir::Op& op = graph_.op(id);
    const bool computed = op.is(ir::kInput) || op.def->traits.random || op.def->traits.effect ||
                          std::ranges::any_of(op.inputs, [&](Value operand) {
                            return computed_.contains(operand.op.value);
                          });
    if (computed) {
      computed_.insert(op.id.value);
    }
  }
  return computed_.contains(value.op.value);
}

const pb::FunctionProto& GraphImporter::keep(pb::FunctionProto function) {
  return functions_.emplace_back(std::move(function));
}

void GraphImporter::countSequence(std::size_t elements) {
  sequenceElements_ += elements;
  if (sequenceElements_ > options_.limits.sequenceElements) {
    raise<Unsupported>(
        "sequences of {} elements in all so far, the limit is {}: raise "
        "ImportOptions::limits.sequenceElements",
        sequenceElements_,
        options_.limits.sequenceElements);
  }
}

void GraphImporter::countConstant(double bytes) {
  constantBytes_ += bytes;
  if (constantBytes_ > static_cast<double>(options_.limits.constantBytes)) {
    raise<Unsupported>(
        "constants of {:.0f} bytes must be computed to import this model, the limit is {}: raise "
        "ImportOptions::limits.constantBytes",
        constantBytes_,
        options_.limits.constantBytes);
  }
}

void GraphImporter::countWork(double work) {
  constantWork_ += work;
  if (constantWork_ > options_.limits.constantWork) {
    raise<Unsupported>(
        "constants that take {:.3g} flops and bytes to compute so far are needed to import this "
        "model, the limit is {:.3g}: raise ImportOptions::limits.constantWork",
        constantWork_,
        options_.limits.constantWork);
  }
}

void GraphImporter::countBody(std::size_t bytesOfNames) {
  if (++numBodies_ > options_.limits.bodies) {
    raise<Unsupported>(
        "bodies run and functions are called {} times so far, the limit for all together is {}: "
        "raise ImportOptions::limits.bodies",
        numBodies_,
        options_.limits.bodies);
  }
  countBodyBytes(bytesOfNames);
}

void GraphImporter::countBodyBytes(std::size_t bytes) {
  bodyBytes_ += bytes;
  if (bodyBytes_ > options_.limits.bodyBytes) {
    raise<Unsupported>(
        "bodies and functions have nodes and names of {} bytes so far, counted each time that they "
        "run or are called, the limit is {}: raise ImportOptions::limits.bodyBytes",
        bodyBytes_,
        options_.limits.bodyBytes);
  }
}

void GraphImporter::countBodyNode(const pb::NodeProto& node, const Scope& scope) {
  const auto [known, isNew] = nodeBytes_.try_emplace(&node, 0);
  if (isNew) {
    known->second = ownBytesOf(node);
  }
  std::size_t bytes = known->second;
  for (const pb::AttributeProto& attr : node.attribute()) {
    if (scope.callAttrs != nullptr && !attr.ref_attr_name().empty()) {
      const ir::Attr* given = scope.callAttrs->find(attr.ref_attr_name());
      bytes += given == nullptr ? 0 : bytesOf(*given);
    }
  }
  countBodyBytes(bytes);
}

std::optional<HostTensor> GraphImporter::evaluate(Value value, std::vector<std::string>& inputs) {
  std::vector<ir::OpId> needed;
  std::unordered_set<std::uint64_t> seen;
  std::vector<ir::OpId> open = {value.op};
  bool random = false;
  while (!open.empty()) {
    const ir::Op& op = graph_.op(open.back());
    open.pop_back();
    if (!seen.insert(op.id.value).second || known_.contains(op.out())) {
      continue;
    }
    needed.push_back(op.id);
    random = random || op.def->traits.random || op.def->traits.effect;
    if (op.is(ir::kInput)) {
      inputs.push_back(op.name);
    }
    for (const Value operand : op.inputs) {
      open.push_back(operand.op);
    }
  }
  if (!inputs.empty() || random) {
    return std::nullopt;
  }
  // Ids grow in the order of making, and operands are made before their users.
  std::ranges::sort(needed, {}, [](ir::OpId id) { return id.value; });
  for (const ir::OpId id : needed) {
    const ir::Op& op = graph_.op(id);
    std::vector<HostTensor> results;
    for (const TensorType& type : op.outputs) {
      countConstant(static_cast<double>(type.bytes()));
    }
    if (op.is(ir::kConstant)) {
      results.push_back(op.attrs.tensor("value"));
    } else if (op.is(ir::kVariable)) {
      results.push_back(graph_.findVariable(op.attrs.text("var"))->initializer.tensor);
    } else {
      countWork(ops::workOf(*op.def, op.attrs, graph_.inputTypes(op)));
      std::vector<HostTensor> operands;
      for (const Value operand : op.inputs) {
        operands.push_back(known_.at(operand));
      }
      results = ops::evaluate(*op.def, op.attrs, operands);
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      known_.insert_or_assign(op.out(i), std::move(results[i]));
    }
  }
  return known_.at(value);
}

void GraphImporter::importNodes(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
                                Scope& scope) {
  for (const pb::NodeProto& node : nodes) {
    try {
      importNode(node, scope);
    } catch (Error& error) {
      error.at(describe(node));
      throw;
    }
  }
}

void GraphImporter::importNode(const pb::NodeProto& node, Scope& scope) {
  if (graph_.numOps() > options_.limits.ops) {
    raise<Unsupported>(
        "the model has {} ops so far once bodies are inlined, the limit is {}: raise "
        "ImportOptions::limits.ops",
        graph_.numOps(),
        options_.limits.ops);
  }
  if (depth_ > 0) {
    countBodyNode(node, scope);
  }
  const auto define = [&](const std::string& name, Scope::Tensor tensor) {
    if (!scope.tensors.emplace(name, std::move(tensor)).second) {
      raise<InvalidArgument>("tensor '{}' is made twice", name);
    }
    if (&scope == &main_) {
      names_.push_back(name);
    }
  };
  if (const Scope::Tensor* same = aliased(node, scope)) {
    define(node.output(0), {.initializer = same->initializer, .alias = node.output(0)});
    return;
  }
  const ir::AnnotationScope outer(builder_);
  readPlacement(node, builder_.place);
  const std::vector<Value> results = translate(node, scope);
  for (int i = 0; i < node.output_size(); ++i) {
    const std::string& name = node.output(i);
    if (name.empty()) {
      continue;
    }
    if (static_cast<std::size_t>(i) >= results.size() ||
        !results[static_cast<std::size_t>(i)].valid()) {
      raise<Unsupported>("output {} ('{}') is not supported", i, name);
    }
    define(name, {.value = results[static_cast<std::size_t>(i)]});
  }
}

std::vector<Value> GraphImporter::translate(const pb::NodeProto& node, Scope& scope) {
  const std::string domain = domainOf(node.domain());
  const auto opset = scope.opsets.find(domain);
  if (const pb::FunctionProto* function = findFunction(domain, node.op_type())) {
    ProtoNode call(*this, node, scope, nullptr, 0);
    return inlineFunction(*function, call.operands(), call.attrs());
  }
  const int version = opset == scope.opsets.end() ? 1 : static_cast<int>(opset->second);
  const ops::CustomOpInfo custom =
      domain.empty() ? ops::CustomOpInfo() : ops::resolveCustomOp(domain, node.op_type(), version);
  if (custom) {
    ProtoNode view(*this, node, scope, nullptr, static_cast<int>(custom.version));
    view.requireTensors();
    view.requireNoBodies();
    return translateCustom(view, custom, custom.infersTypes ? NoTypes() : declaredResults(node));
  }
  const pb::OpSchema* schema = pb::OpSchemaRegistry::Schema(node.op_type(), version, domain);
  if (schema != nullptr && opset == scope.opsets.end() && options_.strictOpVersions) {
    raise<InvalidArgument>("the model imports no opset of domain '{}'", domain);
  }
  const bool known = findTranslation(domain, node.op_type()) != nullptr ||
                     findDirect(domain, node.op_type()) != nullptr;
  if (schema == nullptr && domain.empty() && (options_.strictOpVersions || !known)) {
    raise<InvalidArgument>("opset {} has no op {}", version, node.op_type());
  }
  if (domain == kOwnDomain) {
    ProtoNode own(*this, node, scope, nullptr, 1);
    return translateOwn(own);
  }
  const int since = schema == nullptr ? version : schema->since_version();
  ProtoNode view(*this, node, scope, schema, since);
  try {
    const Translation* translation = findTranslation(domain, node.op_type());
    const ir::OpDef* direct = translation == nullptr ? findDirect(domain, node.op_type()) : nullptr;
    if (direct != nullptr || (translation != nullptr && !translation->sequences)) {
      view.requireTensors();
    }
    if (translation != nullptr) {
      return translation->translate(view);
    }
    if (direct != nullptr) {
      return translateDirectly(view, *direct);
    }
    if (schema != nullptr && (schema->HasFunction() || schema->HasContextDependentFunction())) {
      return view.expandFunction();
    }
  } catch (Error& error) {
    error.at(fmt::format("{}-{}", node.op_type(), since));
    throw;
  }
  raise<Unsupported>("op {}{}{} is not supported{}",
                     domain,
                     domain.empty() ? "" : ".",
                     node.op_type(),
                     customHint(domain, version));
}

std::vector<Value> GraphImporter::inlineGraph(const pb::GraphProto& graph,
                                              std::span<const Value> inputs,
                                              Scope& parent) {
  const DepthGuard guard(depth_);
  countBody(bytesOfNames(graph.input()) + bytesOfNames(graph.initializer()) +
            bytesOfNames(graph.output()));
  if (inputs.size() != static_cast<std::size_t>(graph.input_size())) {
    raise<InvalidArgument>(
        "body '{}' has {} inputs, got {} values", graph.name(), graph.input_size(), inputs.size());
  }
  Scope scope{.parent = &parent, .opsets = parent.opsets, .callAttrs = parent.callAttrs};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    scope.tensors[graph.input(static_cast<int>(i)).name()].value = inputs[i];
  }
  declareInitializers(graph, scope);
  importNodes(graph.node(), scope);
  std::vector<Value> results;
  for (const pb::ValueInfoProto& output : graph.output()) {
    Scope::Tensor* tensor = find(scope, output.name());
    if (tensor == nullptr) {
      raise<InvalidArgument>(
          "output '{}' of body '{}' is made by no node", output.name(), graph.name());
    }
    results.push_back(read(*tensor));
  }
  return results;
}

const pb::FunctionProto* GraphImporter::findFunction(const std::string& domain,
                                                     const std::string& op) const {
  const auto found = ownFunctions_.find({domain, op});
  return found == ownFunctions_.end() ? nullptr : found->second;
}

std::vector<Value> GraphImporter::inlineFunction(const pb::FunctionProto& function,
                                                 std::span<const std::optional<Value>> inputs,
                                                 const ir::Attrs& attrs) {
  const DepthGuard guard(depth_);
  countBody(bytesOfNames(function.input()) + bytesOfNames(function.output()));
  if (inputs.size() > static_cast<std::size_t>(function.input_size())) {
    raise<InvalidArgument>("function {} has {} inputs, got {} values",
                           function.name(),
                           function.input_size(),
                           inputs.size());
  }
  requireFewOpsets(function.opset_import());
  Scope scope{.callAttrs = &attrs};
  for (const pb::OperatorSetIdProto& opset : function.opset_import()) {
    scope.opsets[domainOf(opset.domain())] = opset.version();
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) {
      scope.tensors[function.input(static_cast<int>(i))].value = *inputs[i];
    }
  }
  importNodes(function.node(), scope);
  std::vector<Value> results;
  for (const std::string& output : function.output()) {
    Scope::Tensor* tensor = find(scope, output);
    results.push_back(tensor == nullptr ? Value() : read(*tensor));
  }
  return results;
}

std::vector<int> readableVersions(const std::string& domain, const std::string& op) {
  std::vector<int> versions;
  for (int opset = kNewestOpset; opset >= kOldestOpset;) {
    const pb::OpSchema* schema = pb::OpSchemaRegistry::Schema(op, opset, domain);
    if (schema == nullptr) {
      break;
    }
    if (!schema->Deprecated() &&
        schema->support_level() != pb::OpSchema::SupportType::EXPERIMENTAL) {
      versions.insert(versions.begin(), schema->since_version());
    }
    opset = schema->since_version() - 1;
  }
  return versions.empty() ? std::vector{1} : versions;
}

ImportedModel importModelBytes(std::span<const std::byte> bytes,
                               const ImportOptions& options,
                               const std::filesystem::path& folder) {
  return orOutOfMemory(fmt::format("a model of {} bytes", bytes.size()), [&] {
    const std::unique_ptr<pb::ModelProto> model = parseModel(bytes);
    return GraphImporter(*model, options, folder).run();
  });
}

ImportedModel importModel(const std::filesystem::path& path, const ImportOptions& options) {
  const std::string bytes = readModelFile(path, options.maxFileBytes);
  try {
    std::filesystem::path folder = path.parent_path();
    return importModelBytes(
        std::as_bytes(std::span(bytes)), options, folder.empty() ? "." : std::move(folder));
  } catch (Error& error) {
    error.at(fmt::format("model '{}'", path.string()));
    throw;
  }
}

}  // namespace sluice::onnx
