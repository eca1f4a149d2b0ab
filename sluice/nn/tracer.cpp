#include "sluice/nn/tracer.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/nn/block.h"
#include "sluice/nn/module.h"

namespace sluice::nn {
namespace {

/// What a thread knows of its traces.
struct ThreadState {
  Tracer* current = nullptr;
  std::uint64_t started = 0;
};

ThreadState& threadState() {
  static thread_local ThreadState state;
  return state;
}

/// What is set on the module or on one between it and `outer`. The root's setting is in force from
/// the start of the trace: here it would undo that of a scope around the module.
std::optional<bool> nearestAutocast(const Module& module, const Module* outer) {
  for (const Module* m = &module; m != outer && m->parent() != nullptr; m = m->parent()) {
    if (m->autocastSetting()) {
      return m->autocastSetting();
    }
  }
  return std::nullopt;
}

}  // namespace

Tracer::Tracer(ir::Graph& graph, TraceMode mode) : builder_(graph), mode_(mode) {
  ThreadState& state = threadState();
  if (state.current != nullptr) {
    raise<InvalidArgument>("a trace is already in progress; traces cannot be nested");
  }
  id_ = ++state.started;
  state.current = this;
}

Tracer::~Tracer() {
  threadState().current = nullptr;
}

Tracer& Tracer::current() {
  if (!active()) {
    raise<InvalidArgument>(
        "symbolic tensors, parameters and blocks can be used only inside a trace: in forward() "
        "while a model is built");
  }
  return *threadState().current;
}

bool Tracer::active() {
  return threadState().current != nullptr;
}

Tensor Tracer::input(std::string name, TensorType type) {
  if (name.empty()) {
    raise<InvalidArgument>("an input of the model needs a name");
  }
  for (const ir::OpId id : graph().inputs()) {
    if (graph().op(id).name == name) {
      raise<InvalidArgument>("the model already has an input '{}'", name);
    }
  }
  return {builder_, builder_.input(std::move(name), std::move(type))};
}

void Tracer::beginModel(const Module& root) {
  autocast_ = root.autocastSetting().value_or(false);
}

std::string Tracer::layerKind() const {
  return module_ == nullptr ? std::string() : module_->kind();
}

Tensor Tracer::use(const Parameter& parameter) {
  const std::string name = parameter.fullName();
  const auto found = reads_.find(name);
  if (found == reads_.end()) {
    graph().addVariable(parameter.variable());
    const ir::Value value = builder_.variable(name);
    reads_.emplace(name, Read{&parameter, value});
    return {builder_, value};
  }
  if (found->second.parameter != &parameter) {
    raise<InvalidArgument>(
        "two parameters are called '{}'; make the modules children of one root under different "
        "names",
        name);
  }
  return {builder_, found->second.value};
}

void Tracer::assign(const Parameter& buffer, const Tensor& value) {
  use(buffer);
  if (value.type() != buffer.type()) {
    raise<InvalidArgument>("buffer '{}' is {}, a value {} is assigned to it",
                           buffer.fullName(),
                           buffer.type().str(),
                           value.type().str());
  }
  builder_.assign(buffer.fullName(), value.value());
  reads_.find(buffer.fullName())->second.value = value.value();
}

NameScope::NameScope(std::string_view name)
    : builder_(Tracer::current().builder()), outerLength_(builder_.scope.size()) {
  if (name.empty()) {
    raise<InvalidArgument>("a name scope needs a name");
  }
  builder_.scope.append(name).push_back('/');
}

NameScope::~NameScope() {
  builder_.scope.resize(outerLength_);
}

Autocast::Autocast(bool enabled) : tracer_(Tracer::current()), outer_(tracer_.autocast(enabled)) {}

Autocast::~Autocast() {
  tracer_.autocast(outer_);
}

ModuleScope::ModuleScope(const Module& module)
    : tracer_(Tracer::current()),
      outer_(tracer_.module_),
      outerLength_(tracer_.builder().scope.size()),
      outerAutocast_(tracer_.autocast_) {
  tracer_.beginMarkedBlock(module);
  tracer_.autocast_ = nearestAutocast(module, outer_).value_or(outerAutocast_);
  std::string path = module.path();
  const std::string prefix =
      outer_ == nullptr || outer_->path().empty() ? "" : outer_->path() + ".";
  if (path.starts_with(prefix)) {
    path.erase(0, prefix.size());
  }
  if (tracer_.namesModules_ && !path.empty() && (outer_ == nullptr || path != outer_->path())) {
    std::ranges::replace(path, '.', '/');
    tracer_.builder().scope.append(path).push_back('/');
  }
  tracer_.module_ = &module;
}

ModuleScope::~ModuleScope() {
  tracer_.module_ = outer_;
  tracer_.autocast_ = outerAutocast_;
  tracer_.builder().scope.resize(outerLength_);
}

}  // namespace sluice::nn
