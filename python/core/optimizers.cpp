// Optimizers by the names of their options, which are those of the C++ structs in snake case.
#include "sluice/optim/optimizers.h"

#include <map>

#include <fmt/format.h>

#include "python/core/bindings.h"
#include "python/core/mapped_optimizer.h"
#include "sluice/base/error.h"

namespace sluice::python {
namespace {

using OptimizerPtr = std::shared_ptr<optim::Optimizer>;

/// Hands out the options of one call; what nobody asked for is refused.
class Given {
 public:
  Given(std::string kind, py::kwargs options) : kind_(std::move(kind)), left_(std::move(options)) {}

  template <class T>
  void take(const char* name, T& field) {
    known_.emplace_back(name);
    if (const std::optional<py::object> value = taken(name)) {
      field = cast<T>(name, *value);
    }
  }
  void takeType(const char* name, std::optional<DType>& field) {
    std::optional<std::string> text;
    take(name, text);
    if (text) {
      field = parseDtype(*text);
    }
  }
  void finish() const {
    for (const auto& [name, value] : left_) {
      raise<InvalidArgument>("{} has no option '{}'; it has: {}",
                             kind_,
                             name.cast<std::string>(),
                             fmt::join(known_, ", "));
    }
  }

 private:
  std::optional<py::object> taken(const char* name) {
    if (!left_.contains(name)) {
      return std::nullopt;
    }
    const py::object value = left_[name];
    PyDict_DelItemString(left_.ptr(), name);
    return value.is_none() ? std::nullopt : std::optional(value);
  }
  template <class T>
  T cast(const char* name, const py::object& value) const {
    try {
      return value.cast<T>();
    } catch (const py::cast_error&) {
      raise<InvalidArgument>(
          "{}: {} cannot be {}", kind_, name, py::repr(value).cast<std::string>());
    }
  }

  std::string kind_;
  py::kwargs left_;
  std::vector<std::string> known_;
};

template <class Options>
void takeCommon(Given& given, Options& options) {
  given.take("lr", options.lr);
  given.take("weight_decay", options.weightDecay);
  given.take("loss_scaling", options.lossScaling);
  given.takeType("accum_type", options.accumType);
}

template <class Options>
void takeMoments(Given& given, Options& options) {
  given.takeType("first_order_momentum_accum_type", options.firstOrderMomentumAccumType);
  given.takeType("second_order_momentum_accum_type", options.secondOrderMomentumAccumType);
}

template <class Options>
void takeBetas(Given& given, Options& options) {
  given.take("beta1", options.beta1);
  given.take("beta2", options.beta2);
  given.take("eps", options.eps);
  given.take("bias_correction", options.biasCorrection);
}

OptimizerPtr makeSgd(Given& given) {
  optim::SgdOptions options;
  takeCommon(given, options);
  given.take("momentum", options.momentum);
  given.take("dampening", options.dampening);
  given.take("nesterov", options.nesterov);
  given.take("use_combined_accum", options.useCombinedAccum);
  given.take("velocity_scaling", options.velocityScaling);
  given.take("torch_compatible", options.torchCompatible);
  given.take("max_grad_norm", options.maxGradNorm);
  given.takeType("velocity_accum_type", options.velocityAccumType);
  given.finish();
  return std::make_shared<optim::SGD>(options);
}

template <class Rule>
OptimizerPtr makeAdam(Given& given) {
  optim::AdamOptions options;
  takeCommon(given, options);
  takeBetas(given, options);
  takeMoments(given, options);
  given.take("amsgrad", options.amsgrad);
  given.take("max_grad_norm", options.maxGradNorm);
  given.finish();
  return std::make_shared<Rule>(options);
}

OptimizerPtr makeLamb(Given& given) {
  optim::LambOptions options;
  takeCommon(given, options);
  takeBetas(given, options);
  takeMoments(given, options);
  given.take("max_weight_norm", options.maxWeightNorm);
  given.finish();
  return std::make_shared<optim::LAMB>(options);
}

OptimizerPtr makeRmsProp(Given& given) {
  optim::RmsPropOptions options;
  takeCommon(given, options);
  takeMoments(given, options);
  given.take("alpha", options.alpha);
  given.take("eps", options.eps);
  given.take("momentum", options.momentum);
  given.take("centered", options.centered);
  given.take("use_tf_variant", options.useTfVariant);
  given.finish();
  return std::make_shared<optim::RMSprop>(options);
}

OptimizerPtr make(const std::string& kind, const py::kwargs& options) {
  static const std::map<std::string, OptimizerPtr (*)(Given&), std::less<>> kKinds{
      {"SGD", &makeSgd},
      {"Adam", &makeAdam<optim::Adam>},
      {"AdamW", &makeAdam<optim::AdamW>},
      {"LAMB", &makeLamb},
      {"RMSprop", &makeRmsProp}};
  const auto found = kKinds.find(kind);
  if (found == kKinds.end()) {
    raise<InvalidArgument>(
        "there is no optimizer '{}'; there are SGD, Adam, AdamW, LAMB and RMSprop", kind);
  }
  Given given(kind, options);
  return found->second(given);
}

}  // namespace

void bindOptimizers(py::module_& m) {
  using optim::Optimizer;
  py::class_<Optimizer, OptimizerPtr>(m, "Optimizer", "An update rule and its attributes.")
      .def(py::init(&make), py::arg("kind"))
      .def_property_readonly("name", &Optimizer::name)
      .def("clone", [](const Optimizer& self) { return OptimizerPtr(self.clone()); })
      .def(
          "add_group",
          [](Optimizer& self, std::vector<std::string> names, const optim::Attributes& values) {
            return self.addGroup(optim::named(std::move(names)), values);
          },
          py::arg("names"),
          py::arg("attributes"))
      .def_property_readonly("num_groups", &Optimizer::numGroups)
      .def("get", &Optimizer::get, py::arg("attribute"), py::arg("group") = 0)
      .def("set", &Optimizer::set, py::arg("attribute"), py::arg("value"), py::arg("group") = 0)
      .def(
          "attributes",
          [](const Optimizer& self, std::size_t group) { return self.attributes(group); },
          py::arg("group") = 0)
      .def("is_constant", &Optimizer::isConstant, py::arg("attribute"), py::arg("group") = 0)
      .def("mark_constant", [](Optimizer& self, const std::string& a) { self.markAsConstant(a); })
      .def("mark_variable", [](Optimizer& self, const std::string& a) { self.markAsVariable(a); })
      .def("mark_defaults_constant", [](Optimizer& self) { self.markDefaultsAsConstant(); })
      .def("mapped",
           &mapped,
           py::arg("function"),
           "A copy that applies what a function of names and gradients returns.")
      .def("cast_gradients",
           &Optimizer::castGradients,
           py::arg("on") = true,
           "Gradients may be accumulated in another type than their weight's.")
      .def("set_max_grad_norm", &Optimizer::setMaxGradNorm, py::arg("maximum"));
}

}  // namespace sluice::python
