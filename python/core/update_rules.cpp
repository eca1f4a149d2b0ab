// Update rules: optimizers with the wrappers of the TensorFlow port.
#include "python/core/update_rules.h"

#include "python/core/choice.h"
#include "sluice/ir/value.h"

namespace sluice::python {
namespace {

using OptimizerPtr = std::shared_ptr<optim::Optimizer>;

/// A function of the name, shape and type of a weight that returns the name of a type or None.
optim::AccumulationType typeBy(const py::object& function) {
  return [kept = keep(function)](const ir::Variable& weight) -> std::optional<DType> {
    const Locked gil;
    const py::object type = py::handle(kept.get())(
        weight.name, shapeTuple(weight.type.shape), dtypeName(weight.type.dtype));
    return type.is_none() ? std::nullopt : std::optional(parseDtype(type.cast<std::string>()));
  };
}

AccumulationOptions accumulation(std::optional<bool> offload,
                                 const py::object& dtype,
                                 const std::string& reduction) {
  return {.offloadWeightUpdateVariables = offload,
          .dtype = accumulationDtype(dtype),
          .reduction = reductionNamed(reduction)};
}

template <class Wrapper>
UpdateRule accumulating(const UpdateRule& rule,
                        std::int64_t numMiniBatches,
                        std::optional<bool> offload,
                        const py::object& dtype,
                        const std::string& reduction) {
  return Wrapper(rule, numMiniBatches, accumulation(offload, dtype, reduction));
}

template <class Wrapper>
void bindAccumulating(py::module_& m, const char* name) {
  m.def(name,
        &accumulating<Wrapper>,
        py::arg("rule"),
        py::arg("num_mini_batches"),
        py::arg("offload_weight_update_variables") = py::none(),
        py::arg("dtype") = py::none(),
        py::arg("reduction_method") = "sum");
}

template <class Wrapper>
void bindSgdAccumulating(py::module_& m, const char* name) {
  m.def(
      name,
      [](const UpdateRule& rule, std::int64_t n) -> UpdateRule { return Wrapper(rule, n); },
      py::arg("rule"),
      py::arg("num_mini_batches"));
}

}  // namespace

AccumulationDtype accumulationDtype(const py::object& dtype) {
  if (dtype.is_none()) {
    return {};
  }
  if (py::isinstance<py::str>(dtype)) {
    return parseDtype(dtype.cast<std::string>());
  }
  return typeBy(dtype);
}

Reduction reductionNamed(const std::string& name) {
  return choice<Reduction>(
      "reduction_method", name, {{"sum", Reduction::Sum}, {"mean", Reduction::Mean}});
}

void bindUpdateRules(py::module_& m) {
  py::class_<UpdateRule>(m, "UpdateRule", "An optimizer, possibly accumulating or averaging.")
      .def(py::init([](const OptimizerPtr& optimizer) { return UpdateRule(*optimizer); }),
           py::arg("optimizer"))
      .def_property_readonly("wrapper", &UpdateRule::wrapper);
  bindAccumulating<GradientAccumulationOptimizerV2>(m, "gradient_accumulation_v2");
  bindAccumulating<CrossReplicaGradientAccumulationOptimizerV2>(
      m, "cross_replica_gradient_accumulation_v2");
  bindSgdAccumulating<GradientAccumulationOptimizer>(m, "gradient_accumulation");
  bindSgdAccumulating<CrossReplicaGradientAccumulationOptimizer>(
      m, "cross_replica_gradient_accumulation");
  m.def(
      "cross_replica",
      [](const UpdateRule& rule) -> UpdateRule { return CrossReplicaOptimizer(rule); },
      py::arg("rule"));
}

}  // namespace sluice::python
