// Models: a module tree, a Python function that is traced, and what one does with the result.
#include "python/core/bindings.h"
#include "python/core/interruptible.h"
#include "python/core/modules.h"
#include "python/core/python_dataset.h"
#include "sluice/api/graph_source.h"
#include "sluice/api/model.h"
#include "sluice/base/error.h"
#include "sluice/onnx/export.h"

namespace sluice::python {
namespace {

using OptimizerPtr = std::shared_ptr<optim::Optimizer>;

/// A model waits for its turn before it ends, and the step that it waits for may need the
/// interpreter's lock.
struct EndsUnlocked {
  void operator()(Model* model) const {
    endOutsideOfReaders([model] { delete model; });
  }
};
using ModelPtr = std::unique_ptr<Model, EndsUnlocked>;
using ModelClass = py::class_<Model, ModelPtr>;

SymbolicStructure traced(const py::handle& function, std::span<const SymbolicStructure> inputs) {
  const Locked gil;
  std::vector<nn::Tensor> given;
  for (const SymbolicStructure& input : inputs) {
    given.push_back(input.tensor());
  }
  const py::object result = function(std::move(given));
  std::vector<SymbolicStructure> outputs;
  for (const py::handle& tensor : result) {
    outputs.emplace_back(tensor.cast<nn::Tensor>());
  }
  return SymbolicStructure::list(std::move(outputs));
}

/// The function gets one tensor per name and returns tensors.
ModelPtr makeModel(const std::shared_ptr<DynamicModule>& module,
                   const py::function& function,
                   const std::vector<std::string>& names,
                   const Options& options,
                   const OptimizerPtr& optimizer) {
  Forward forward = [kept = keep(function)](std::span<const SymbolicStructure> inputs) {
    return traced(kept.get(), inputs);
  };
  ModuleSourceOptions source;
  source.owner = module;
  std::vector<Input> inputs(names.begin(), names.end());
  return ModelPtr(
      new Model(moduleSource(*module, std::move(forward), std::move(inputs), std::move(source)),
                options,
                optimizer == nullptr ? nullptr : optimizer->clone()));
}

void compile(Model& model, const std::vector<HostTensor>& inputs) {
  const Unlocked release;
  model.compile(inputs);
}

/// Compiles first: a compilation is not cancelled.
std::vector<HostTensor> run(Model& model, const std::vector<HostTensor>& inputs) {
  compile(model, inputs);
  std::vector<HostTensor> results;
  runInterruptibly([&] { results = model.run(inputs); }, [&] { model.cancel(); });
  return results;
}

/// The step alone, which Ctrl-C does not end: what a call costs without anything around it.
std::vector<HostTensor> runHere(Model& model, const std::vector<HostTensor>& inputs) {
  const Unlocked release;
  return model.run(inputs);
}

Latency latencyOf(const Model& model, const std::string& kind) {
  if (kind == "host_device") {
    return model.getHostDeviceLatency();
  }
  if (kind == "compute") {
    return model.getComputeLatency();
  }
  return kind == "device_host" ? model.getDeviceHostLatency() : model.getLatency();
}

/// Calls that may wait for another thread's step give up the interpreter's lock, which that step
/// may need.
template <class F>
auto unlocked(F function) {
  const Unlocked release;
  return function();
}

std::vector<py::tuple> variablesOf(const Model& model) {
  std::vector<py::tuple> result;
  for (const ir::Variable& variable : unlocked([&] { return model.variables(); })) {
    result.push_back(py::make_tuple(variable.name,
                                    shapeTuple(variable.type.shape),
                                    dtypeName(variable.type.dtype),
                                    variable.role == ir::VariableRole::Buffer));
  }
  return result;
}

void bindState(ModelClass& model) {
  using Release = py::call_guard<Unlocked>;
  model.def("variables", &variablesOf, "(name, shape, dtype, whether it is a buffer) of each.")
      .def("read", &Model::read, py::arg("variable"), py::arg("replica") = 0, Release())
      .def("state_dict", &Model::stateDict, Release())
      .def(
          "load_state_dict",
          [](Model& self, const NamedTensors& state) { self.loadStateDict(state); },
          py::arg("state"),
          Release())
      .def("optimizer_state_dict", &Model::optimizerStateDict, Release())
      .def("load_optimizer_state_dict", &Model::loadOptimizerStateDict, py::arg("state"), Release())
      .def(
          "set_optimizer",
          [](Model& self, const OptimizerPtr& optimizer) { self.setOptimizer(*optimizer); },
          py::arg("optimizer"),
          Release())
      .def_property_readonly(
          "updates", [](const Model& self) { return unlocked([&] { return self.updates(); }); })
      .def_property(
          "rng_state",
          [](const Model& self) {
            const RngState state = unlocked([&] { return self.rngState(); });
            return std::make_pair(state.seed, state.microBatch);
          },
          [](Model& self, std::pair<std::uint64_t, std::int64_t> state) {
            unlocked([&] { self.setRngState({state.first, state.second}); });
          })
      .def("copy_named_buffers", &Model::copyNamedBuffersToDevice, Release());
}

}  // namespace

void bindModels(py::module_& m) {
  using Release = py::call_guard<Unlocked>;
  ModelClass model(m, "Model", "A compiled module; see sluice.trainingModel.");
  model
      .def(py::init(&makeModel),
           py::arg("module"),
           py::arg("forward"),
           py::arg("input_names"),
           py::arg("options"),
           py::arg("optimizer") = nullptr)
      .def("compile", &compile, py::arg("inputs"))
      .def("run", &run, py::arg("inputs"))
      .def("run_here", &runHere, py::arg("inputs"))
      .def("cancel", &Model::cancel, Release())
      .def("destroy", &Model::destroy, Release())
      .def_property_readonly(
          "is_compiled",
          [](const Model& self) { return unlocked([&] { return self.isCompiled(); }); })
      .def_property_readonly(
          "compilation_time",
          [](const Model& self) { return unlocked([&] { return self.compilationTime(); }); })
      .def_property_readonly(
          "micro_batches_per_step",
          [](const Model& self) { return unlocked([&] { return self.microBatchesPerStep(); }); })
      .def("tensor_names", &Model::getTensorNames, Release())
      .def("anchored", &Model::getAnchoredTensor, py::arg("name"), Release())
      .def("attach", &Model::attachToDevice, Release())
      .def("detach", &Model::detachFromDevice, Release())
      .def_property_readonly(
          "is_attached",
          [](const Model& self) { return unlocked([&] { return self.isAttachedToDevice(); }); })
      .def("summary", &Model::summary, Release())
      .def("explain", &Model::explain, Release())
      .def(
          "report",
          [](const Model& model, const std::string& file) { model.report(file); },
          py::arg("file"),
          Release())
      .def("cycle_count", &Model::cycleCount, Release())
      .def(
          "suggest_changes",
          [](Model& model, std::size_t most) {
            std::vector<std::tuple<std::string, std::string, double, double>> found;
            for (const Suggestion& each : model.suggestChanges(most)) {
              found.emplace_back(each.change, each.strategy.str(), each.seconds, each.faster);
            }
            return found;
          },
          py::arg("most") = 3,
          Release())
      .def(
          "simulate_step",
          [](Model& model) {
            const SimulatedStep step = model.simulateStep();
            return std::tuple(step.target, step.cycles, step.seconds);
          },
          Release())
      .def(
          "latency",
          [](const Model& self, const std::string& kind) {
            const Latency latency = latencyOf(self, kind);
            return py::make_tuple(latency.min, latency.max, latency.avg);
          },
          py::arg("kind"))
      .def(
          "model_proto",
          [](const Model& self, bool exact) {
            return py::bytes(self.getModelProto(exact ? onnx::Exact::Yes : onnx::Exact::No));
          },
          py::arg("exact") = false);
  bindState(model);
}

}  // namespace sluice::python
