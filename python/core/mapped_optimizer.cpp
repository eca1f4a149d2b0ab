#include "python/core/mapped_optimizer.h"

#include "sluice/base/error.h"
#include "sluice/nn/tracer.h"
#include "sluice/optim/optimizers.h"
#include "sluice/optim/update_context.h"

namespace sluice::python {
namespace {

using optim::Gradient;
using optim::UpdateContext;
using Tensors = std::vector<nn::Tensor>;

Tensors called(const py::handle& function, const std::vector<Gradient>& given, Tensors gradients) {
  const Locked gil;
  std::vector<std::string> names;
  for (const Gradient& gradient : given) {
    names.push_back(gradient.variable);
  }
  return function(names, std::move(gradients)).cast<Tensors>();
}

/// Traces the function into the graph of the update.
void mapGradients(UpdateContext& context, const py::handle& function) {
  std::vector<Gradient> gradients(context.gradients().begin(), context.gradients().end());
  nn::Tracer tracer(context.b.graph(), nn::TraceMode::Training);
  context.placeAnywhere();
  tracer.builder().place = context.b.place;
  Tensors tensors;
  for (const Gradient& gradient : gradients) {
    if (gradient.inVelocity) {
      raise<Unsupported>("'{}': its gradient is added to the velocity and cannot be mapped",
                         gradient.variable);
    }
    tensors.emplace_back(tracer.builder(), gradient.value);
  }
  const Tensors results = called(function, gradients, tensors);
  SLUICE_CHECK(results.size() == gradients.size(), "{} gradients", results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].shape() != tensors[i].shape() || !isFloat(results[i].dtype())) {
      raise<InvalidArgument>("the gradient of '{}' is {}, and the optimizer makes {} of it",
                             gradients[i].variable,
                             tensors[i].type().str(),
                             results[i].type().str());
    }
    gradients[i].value = results[i].value();
  }
  context.setGradients(std::move(gradients));
}

template <class Rule>
class Mapped : public Rule {
 public:
  Mapped(const Rule& rule, const py::function& function) : Rule(rule), function_(keep(function)) {}

  std::unique_ptr<optim::Optimizer> clone() const override {
    return std::make_unique<Mapped>(*this);
  }
  std::optional<optim::Attributes> settings() const override { return std::nullopt; }

 protected:
  void update(UpdateContext& context) const override {
    mapGradients(context, function_.get());
    Rule::update(context);
  }

 private:
  std::shared_ptr<PyObject> function_;
};

template <class Rule>
std::shared_ptr<optim::Optimizer> mappedAs(const optim::Optimizer& optimizer,
                                           const py::function& function) {
  const auto* rule = dynamic_cast<const Rule*>(&optimizer);
  return rule == nullptr ? nullptr : std::make_shared<Mapped<Rule>>(*rule, function);
}

}  // namespace

std::shared_ptr<optim::Optimizer> mapped(const optim::Optimizer& optimizer,
                                         const py::function& function) {
  for (const auto as : {&mappedAs<optim::SGD>,
                        &mappedAs<optim::Adam>,
                        &mappedAs<optim::AdamW>,
                        &mappedAs<optim::LAMB>,
                        &mappedAs<optim::RMSprop>}) {
    if (auto made = as(optimizer, function)) {
      return made;
    }
  }
  raise<Unsupported>("the gradients of {} cannot be mapped", optimizer.name());
}

}  // namespace sluice::python
