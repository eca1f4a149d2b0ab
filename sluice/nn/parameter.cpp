#include "sluice/nn/parameter.h"

#include "sluice/base/error.h"
#include "sluice/nn/module.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {

Parameter::Parameter(const Module& owner,
                     std::string name,
                     TensorType type,
                     ir::VariableRole role,
                     ir::Initializer initializer)
    : owner_(owner),
      name_(std::move(name)),
      type_(std::move(type)),
      role_(role),
      trainable_(role == ir::VariableRole::Weight) {
  setInitializer(std::move(initializer));
}

void Parameter::setInitializer(ir::Initializer initializer) {
  if (initializer.kind == ir::Initializer::Kind::Tensor && initializer.tensor.type() != type_) {
    raise<InvalidArgument>("parameter '{}' is {}, its initial value {}",
                           fullName(),
                           type_.str(),
                           initializer.tensor.type().str());
  }
  if (isBuffer() && storeWithValue() != nullptr) {
    raise<InvalidArgument>(
        "buffer '{}' cannot be replaced once a model is compiled; setValue gives it another value",
        fullName());
  }
  initializer_ = std::move(initializer);
}

std::string Parameter::fullName() const {
  const std::string path = owner_.path();
  return path.empty() ? name_ : path + "." + name_;
}

void Parameter::setTrainable(bool trainable) {
  if (isBuffer()) {
    raise<InvalidArgument>("'{}' is a buffer; only weights are trained", fullName());
  }
  trainable_ = trainable;
}

void Parameter::requireConvertible(DType dtype) const {
  if (!isFloat(dtype)) {
    raise<InvalidArgument>("parameter '{}': {} is no float type", fullName(), sluice::name(dtype));
  }
  if (storeWithValue() != nullptr) {
    raise<InvalidArgument>(
        "parameter '{}' is {} in a compiled model: destroy() the model before its type is changed",
        fullName(),
        type_.str());
  }
}

void Parameter::to(DType dtype) {
  requireConvertible(dtype);
  if (!isFloat(type_.dtype)) {
    raise<InvalidArgument>("parameter '{}' is {}, which is no float", fullName(), type_.str());
  }
  type_.dtype = dtype;
  if (initializer_.kind == ir::Initializer::Kind::Tensor) {
    initializer_.tensor = cast(initializer_.tensor, dtype);
  }
}

ir::Variable Parameter::variable() const {
  return {.name = fullName(),
          .type = type_,
          .role = role_,
          .trainable = trainable_,
          .initializer = initializer_};
}

std::shared_ptr<StateStore> Parameter::storeWithValue() const {
  std::shared_ptr<StateStore> store = owner_.store();
  return store != nullptr && store->contains(fullName()) ? store : nullptr;
}

HostTensor Parameter::value() const {
  if (const std::shared_ptr<StateStore> store = storeWithValue()) {
    return store->read(fullName());
  }
  return ir::initialValue(variable(), owner_.seed());
}

void Parameter::setValue(const HostTensor& value) {
  if (value.type() != type_) {
    raise<InvalidArgument>(
        "parameter '{}' is {}, the new value {}", fullName(), type_.str(), value.type().str());
  }
  if (const std::shared_ptr<StateStore> store = storeWithValue()) {
    store->write(fullName(), value);
  } else {
    initializer_ = ir::Initializer::of(value.clone());
  }
}

void Parameter::startFrom(HostTensor value) {
  initializer_ = ir::Initializer::of(std::move(value));
}

Tensor Parameter::use() const {
  return Tracer::current().use(*this);
}

void Parameter::assign(const Tensor& value) {
  if (!isBuffer()) {
    raise<InvalidArgument>("'{}' is a weight: only buffers are written in forward", fullName());
  }
  Tracer::current().assign(*this, value);
}

Parameter& Parameter::operator+=(const Tensor& x) {
  assign(use() + x);
  return *this;
}

Parameter& Parameter::operator+=(double x) {
  assign(use() + x);
  return *this;
}

Parameter& Parameter::operator*=(double x) {
  assign(use() * x);
  return *this;
}

}  // namespace sluice::nn
