// Models: a module tree, a Python function that is traced, and what one does with the result.
#include "python/core/bindings.h"
#include "python/core/interruptible.h"
#include "python/core/modules.h"
#include "python/core/python_dataset.h"
#include "sluice/api/batch.h"
#include "sluice/api/executable.h"
#include "sluice/api/graph_source.h"
#include "sluice/api/model.h"
#include "sluice/base/error.h"
#include "sluice/onnx/files.h"
#include "sluice/program/program.h"

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

/// The function gets one tensor per name and returns tensors. A second model of a module waits for
/// a step of the first one.
ModelPtr makeModel(const std::shared_ptr<DynamicModule>& module,
                   const py::function& function,
                   const std::vector<std::string>& names,
                   const Options& options,
                   const OptimizerPtr& optimizer,
                   bool looseOps) {
  Forward forward = [kept = keep(function)](std::span<const SymbolicStructure> inputs) {
    return traced(kept.get(), inputs);
  };
  ModuleSourceOptions source;
  source.owner = module;
  source.looseOps = looseOps ? LooseOps::Join : LooseOps::Refuse;
  std::vector<Input> inputs(names.begin(), names.end());
  std::unique_ptr<optim::Optimizer> own = optimizer == nullptr ? nullptr : optimizer->clone();
  const Unlocked release;
  return ModelPtr(
      new Model(moduleSource(*module, std::move(forward), std::move(inputs), std::move(source)),
                options,
                std::move(own)));
}

void compile(Model& model, const std::vector<HostTensor>& inputs) {
  const Unlocked release;
  model.compile(inputs);
}

void compileAgain(Model& model, const std::vector<HostTensor>& inputs) {
  const Unlocked release;
  model.compileAgain(inputs);
}

/// The types of a micro-batch of inputs that hold a whole call.
std::vector<TensorType> typesOf(const Model& model, const std::vector<HostTensor>& inputs) {
  const BatchLayout layout = model.batchLayout();
  std::vector<TensorType> types;
  for (const HostTensor& input : inputs) {
    std::vector<std::int64_t> dims = input.shape().dims();
    if (!dims.empty()) {
      dims[0] = layout.microBatchOf("an input", input.shape());
    }
    types.push_back({input.dtype(), Shape(std::move(dims))});
  }
  return types;
}

/// What a call returns of a value that has the rows of an input with a whole call.
py::tuple returnedShape(const Model& model, std::vector<std::int64_t> dims) {
  const BatchLayout layout = unlocked([&] { return model.batchLayout(); });
  if (!dims.empty()) {
    dims[0] = layout.microBatchOf("an input", Shape(dims));
  }
  return shapeTuple(layout.outputShape(Shape(std::move(dims))));
}

/// Traces without compiling.
void trace(Model& model, const std::vector<HostTensor>& inputs) {
  const Unlocked release;
  model.check(typesOf(model, inputs));
}

py::dict planDict(const PlanReport& report) {
  py::dict dict;
  dict["target"] = report.target;
  dict["bound"] = report.bound;
  dict["complete"] = report.complete;
  dict["smallest_budget"] = report.smallestBudget;
  dict["plan"] = py::none();
  if (report.best) {
    std::vector<std::size_t> bytes;
    for (const PlannedBytes& device : report.best->devices) {
      bytes.push_back(device.total());
    }
    dict["plan"] = report.best->choice.str();
    dict["seconds"] = report.best->seconds;
    dict["bytes"] = bytes;
    dict["lines"] = report.best->choice.pythonLines();
  }
  py::list tried;
  for (const TriedPlan& each : report.tried) {
    tried.append(py::make_tuple(each.choice.str(),
                                each.outcome == PlanOutcome::Fits,
                                each.seconds,
                                each.largest,
                                each.reason));
  }
  dict["tried"] = tried;
  return dict;
}

py::dict findPlan(Model& model,
                  const std::vector<HostTensor>& inputs,
                  std::int64_t devices,
                  double seconds,
                  bool exhaustive,
                  bool replicas) {
  PlanReport report;
  {
    const Unlocked release;
    report = model.findPlan(
        typesOf(model, inputs),
        {.devices = devices, .seconds = seconds, .exhaustive = exhaustive, .replicas = replicas});
  }
  return planDict(report);
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

OtherTarget otherTarget(bool refuse) {
  return refuse ? OtherTarget::Refuse : OtherTarget::Recompile;
}

/// The function gets the options of the file and may change them.
ModelPtr loadModel(const std::string& path, const py::object& edit, bool refuse) {
  LoadOptions given{.editOptions = {}, .otherTarget = otherTarget(refuse)};
  if (!edit.is_none()) {
    given.editOptions = [kept = keep(edit)](Options& options) {
      const Locked gil;
      const py::handle function = kept.get();
      options = function(options.clone()).cast<Options>();
    };
  }
  const Unlocked release;
  return ModelPtr(new Model(load(path, given)));
}

std::vector<std::string> namesOf(const std::vector<program::Port>& ports) {
  std::vector<std::string> names;
  for (const program::Port& port : ports) {
    names.push_back(port.name);
  }
  return names;
}

void bindExecutables(py::module_& m, ModelClass& model) {
  using Release = py::call_guard<Unlocked>;
  model
      .def(
          "save",
          [](const Model& self, const std::string& path, bool exportModel, bool saveRngState) {
            self.save(path, {exportModel, saveRngState});
          },
          py::arg("path"),
          py::arg("export_model") = true,
          py::arg("save_rng_state") = true,
          Release())
      .def(
          "load_executable",
          [](Model& self, const std::string& path, bool refuse) {
            self.loadExecutable(path, otherTarget(refuse));
          },
          py::arg("path"),
          py::arg("refuse_other_target") = false,
          Release())
      .def_property_readonly(
          "input_names",
          [](const Model& self) { return unlocked([&] { return namesOf(self.program().feeds); }); })
      .def_property_readonly("output_names",
                             [](const Model& self) {
                               return unlocked([&] { return namesOf(self.program().drains); });
                             })
      .def_property_readonly(
          "training",
          [](const Model& self) { return unlocked([&] { return self.optimizer() != nullptr; }); })
      .def_property_readonly("options", [](const Model& self) { return self.options().clone(); });
  m.def("load",
        &loadModel,
        py::arg("path"),
        py::arg("edit") = py::none(),
        py::arg("refuse_other_target") = false,
        "Makes a model of an executable.");
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
           py::arg("optimizer") = nullptr,
           py::arg("loose_ops") = true)
      .def("compile", &compile, py::arg("inputs"))
      .def("compile_again", &compileAgain, py::arg("inputs"))
      .def("find_plan",
           &findPlan,
           py::arg("inputs"),
           py::arg("devices"),
           py::arg("seconds"),
           py::arg("exhaustive"),
           py::arg("replicas"))
      .def("trace", &trace, py::arg("inputs"), "Calls the traced function, for its effects.")
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
      .def("returned_shape", &returnedShape, py::arg("shape"))
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
          [](const Model& model, const std::string& file, const std::string& predictedOn) {
            model.report(file, predictedOn);
          },
          py::arg("file"),
          py::arg("predicted_on"),
          Release())
      .def("cycle_count", &Model::cycleCount, Release())
      .def(
          "suggest_changes",
          [](Model& model, std::size_t most, const std::string& target) {
            std::vector<std::tuple<std::string, std::string, double, double>> found;
            for (const Suggestion& each : model.suggestChanges(most, target)) {
              found.emplace_back(each.change, each.strategy.str(), each.seconds, each.faster);
            }
            return found;
          },
          py::arg("most") = 3,
          py::arg("target") = "",
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
            const Latency latency = unlocked([&] { return latencyOf(self, kind); });
            return py::make_tuple(latency.min, latency.max, latency.avg);
          },
          py::arg("kind"))
      .def(
          "model_proto",
          [](const Model& self, bool exact) {
            return py::bytes(unlocked(
                [&] { return self.getModelProto(exact ? onnx::Exact::Yes : onnx::Exact::No); }));
          },
          py::arg("exact") = false);
  bindState(model);
  bindExecutables(m, model);
}

}  // namespace sluice::python
