// A module whose parameters and children Python adds.
#pragma once

#include "python/core/bindings.h"
#include "sluice/nn/module.h"

namespace sluice::python {

class DynamicModule : public nn::Module {
 public:
  explicit DynamicModule(std::string kind) : kind_(std::move(kind)) {}
  DynamicModule(Module& parent, std::string name, std::string kind)
      : Module(parent, std::move(name)), kind_(std::move(kind)) {}

  std::string kind() const override { return kind_; }
  using Module::addBuffer;
  using Module::addParameter;

 private:
  std::string kind_;
};

}  // namespace sluice::python
