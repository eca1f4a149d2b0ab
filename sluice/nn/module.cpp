#include "sluice/nn/module.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {

Module::Module(Module& parent, std::string name)
    : parent_(&parent), name_(std::move(name)), training_(parent.training_) {
  if (name_.empty() || name_.find('.') != std::string::npos) {
    raise<InvalidArgument>("a child of {} is called '{}'; a name without dots is needed",
                           moduleCalled(parent.path()),
                           name_);
  }
  parent.requireFreeName(name_);
  parent.children_.push_back(this);
  noteChange();
}

Module::~Module() {
  if (link_ != nullptr) {
    link_->end();
  }
  if (parent_ != nullptr) {
    std::erase(parent_->children_, this);
    noteChange();
  }
  for (Module* child : children_) {
    child->parent_ = nullptr;
  }
}

std::string Module::path() const {
  if (parent_ == nullptr) {
    return {};
  }
  const std::string above = parent_->path();
  return above.empty() ? name_ : above + "." + name_;
}

const Module& Module::root() const {
  return parent_ == nullptr ? *this : parent_->root();
}

void Module::noteChange() {
  Module* top = this;
  while (top->parent_ != nullptr) {
    top = top->parent_;
  }
  ++top->changes_;
}

template <class Visit>
void Module::visit(const Visit& visit) const {
  visit(*this);
  for (const Module* child : children_) {
    child->visit(visit);
  }
}

std::vector<Parameter*> Module::parameters() const {
  std::vector<Parameter*> found;
  visit([&](const Module& module) {
    for (const auto& parameter : module.own_) {
      if (!parameter->isBuffer()) {
        found.push_back(parameter.get());
      }
    }
  });
  return found;
}

std::vector<Parameter*> Module::buffers() const {
  std::vector<Parameter*> found;
  visit([&](const Module& module) {
    for (const auto& parameter : module.own_) {
      if (parameter->isBuffer()) {
        found.push_back(parameter.get());
      }
    }
  });
  return found;
}

Parameter* Module::find(std::string_view name) const {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) {
    for (const auto& parameter : own_) {
      if (parameter->name() == name) {
        return parameter.get();
      }
    }
    return nullptr;
  }
  for (const Module* child : children_) {
    if (child->name_ == name.substr(0, dot)) {
      return child->find(name.substr(dot + 1));
    }
  }
  return nullptr;
}

std::int64_t Module::numParameters() const {
  std::int64_t count = 0;
  for (const Parameter* parameter : parameters()) {
    count += parameter->type().shape.elements();
  }
  return count;
}

void Module::train(bool training) {
  training_ = training;
  for (Module* child : children_) {
    child->train(training);
  }
}

void Module::freeze(bool frozen) {
  for (Parameter* parameter : parameters()) {
    parameter->setTrainable(!frozen);
  }
}

Module& Module::to(DType dtype) {
  for (const auto& list : {parameters(), buffers()}) {
    for (Parameter* parameter : list) {
      parameter->requireConvertible(dtype);
    }
  }
  for (const auto& list : {parameters(), buffers()}) {
    for (Parameter* parameter : list) {
      if (isFloat(parameter->type().dtype) && !parameter->keepsType()) {
        parameter->to(dtype);
      }
    }
  }
  return *this;
}

Module& Module::autocast(bool enabled) {
  autocast_ = enabled;
  return *this;
}

void Module::setSeed(std::uint64_t seed) {
  requireRoot("the seed is set");
  seed_ = seed;
}

std::shared_ptr<StateStore> Module::store() const {
  const Module& top = root();
  return top.link_ == nullptr ? nullptr : top.link_->store();
}

const std::shared_ptr<StateLink>& Module::link() const {
  requireRoot("models are made");
  if (link_ == nullptr) {
    raise<InvalidArgument>(
        "module '{}' was made as part of another module that is gone: models are made of a module "
        "without a parent",
        name_);
  }
  return link_;
}

Parameter& Module::addParameter(std::string name, TensorType type, ir::Initializer initializer) {
  return add(std::move(name), std::move(type), ir::VariableRole::Weight, std::move(initializer));
}

Parameter& Module::addBuffer(std::string name, TensorType type, ir::Initializer initializer) {
  return add(std::move(name), std::move(type), ir::VariableRole::Buffer, std::move(initializer));
}

Parameter& Module::add(std::string name,
                       TensorType type,
                       ir::VariableRole role,
                       ir::Initializer init) {
  if (name.empty() || name.find('.') != std::string::npos) {
    raise<InvalidArgument>("a parameter of {} is called '{}'; a name without dots is needed",
                           moduleCalled(path()),
                           name);
  }
  requireFreeName(name);
  own_.push_back(
      std::make_unique<Parameter>(*this, std::move(name), std::move(type), role, std::move(init)));
  noteChange();
  return *own_.back();
}

void Module::requireFreeName(std::string_view name) const {
  const bool taken =
      std::ranges::any_of(children_, [&](const Module* child) { return child->name_ == name; }) ||
      std::ranges::any_of(own_, [&](const auto& parameter) { return parameter->name() == name; });
  if (taken) {
    raise<InvalidArgument>("{} already has a child or parameter '{}'", moduleCalled(path()), name);
  }
}

void Module::requireRoot(std::string_view what) const {
  if (parent_ != nullptr) {
    raise<InvalidArgument>("{} on the root of the tree, not on module '{}'", what, path());
  }
}

bool Module::tracesTraining() const {
  return training_ && Tracer::current().training();
}

std::string Module::description() const {
  const std::string where = path();
  return where.empty() ? kind() : fmt::format("{} '{}'", kind(), where);
}

Tensor Layer::operator()(const Tensor& x) {
  const ModuleScope scope(*this);
  try {
    return forward(x);
  } catch (Error& error) {
    // The innermost module is the place, unless the message already names it.
    const std::string where = path();
    if (error.location().empty() && !where.empty() &&
        error.message().find("'" + where) == std::string::npos) {
      error.at(description());
    }
    throw;
  }
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& layer : layers_) {
    y = (*layer)(y);
  }
  return y;
}

}  // namespace sluice::nn
