// Functions with loops and pipelines on the devices, as the TensorFlow port has them.
#include "sluice/frontends/tensorflow/loops.h"

#include "python/core/bindings.h"
#include "python/core/choice.h"
#include "python/core/interruptible.h"
#include "python/core/modules.h"
#include "python/core/python_dataset.h"
#include "python/core/queues.h"
#include "python/core/update_rules.h"

namespace sluice::python {
namespace {

using Release = py::call_guard<Unlocked>;
using FunctionPtr = std::shared_ptr<CompiledFunction>;
using InfeedPtr = std::shared_ptr<data::InfeedQueue>;
using OutfeedPtr = std::shared_ptr<data::OutfeedQueue>;

/// Takes the interpreter's lock while the function traces.
nn::Body bodyOf(const py::function& function) {
  return [kept = keep(function)](Tensors inputs) {
    const Locked gil;
    return py::handle(kept.get())(std::move(inputs)).cast<Tensors>();
  };
}

/// Its end waits for a running call, whose threads may need the interpreter's lock.
void endFunction(CompiledFunction* function) {
  endOutsideOfReaders([function] { delete function; });
}

FunctionPtr makeFunction(const std::shared_ptr<DynamicModule>& module,
                         const Options& options,
                         const py::function& function) {
  nn::Body body = bodyOf(function);
  const Unlocked release;
  return {new CompiledFunction(module.get(), options, std::move(body)), &endFunction};
}

/// Traces in the calling thread, as functions of Python expect, and runs in one that Ctrl-C can
/// end.
std::vector<HostTensor> run(CompiledFunction& function, const std::vector<HostTensor>& inputs) {
  {
    const Unlocked release;
    function.compile(inputs);
  }
  std::vector<HostTensor> results;
  runInterruptibly([&] { results = function.run(inputs); }, [&] { function.model().cancel(); });
  return results;
}

Tensors repeatBody(std::int64_t count,
                   const py::function& body,
                   const Tensors& inputs,
                   const InfeedPtr& infeed) {
  if (infeed != nullptr) {
    awaitTypes(*infeed);
  }
  const nn::Body traced = bodyOf(body);
  const Unlocked release;
  return repeat(count, traced, inputs, infeed.get());
}

void enqueueTensors(data::OutfeedQueue& outfeed, const Tensors& values) {
  enqueue(outfeed, values);
}

void enqueueNamed(data::OutfeedQueue& outfeed, const std::map<std::string, nn::Tensor>& values) {
  enqueue(outfeed, values);
}

OptimizerFunction optimizerFunctionOf(const py::object& function) {
  if (function.is_none()) {
    return {};
  }
  return [kept = keep(function)](const Tensors& outputs) -> OptimizerFunctionOutput {
    const Locked gil;
    const py::tuple result = py::handle(kept.get())(outputs);
    return {result[0].cast<UpdateRule>(), result[1].cast<nn::Tensor>()};
  };
}

std::vector<PipelineStage> stagesOf(const std::vector<std::vector<py::function>>& given) {
  std::vector<PipelineStage> stages;
  for (const std::vector<py::function>& functions : given) {
    std::vector<nn::Body> bodies;
    for (const py::function& function : functions) {
      bodies.push_back(bodyOf(function));
    }
    stages.emplace_back(std::move(bodies));
  }
  return stages;
}

std::vector<StageDevices> mappingOf(const std::vector<std::vector<std::int32_t>>& given) {
  return {given.begin(), given.end()};
}

/// Hands out the options of a pipeline by name.
class PipelineArguments {
 public:
  explicit PipelineArguments(py::dict given) : given_(std::move(given)) {}

  template <class T>
  void read(const char* name, T& field) const {
    field = given_[name].cast<T>();
  }
  py::object get(const char* name) const { return given_[name]; }

 private:
  py::dict given_;
};

void readPlaces(const PipelineArguments& given, PipelineOptions& options) {
  given.read("offload_weight_update_variables", options.offloadWeightUpdateVariables);
  given.read("offload_activations", options.offloadActivations);
  given.read("offload_gradient_accumulation_buffers", options.offloadGradientAccumulationBuffers);
  given.read("offload_weights", options.offloadWeights);
  given.read("replicated_optimizer_state_sharding", options.replicatedOptimizerStateSharding);
  given.read("replicated_weight_sharding", options.replicatedWeightSharding);
}

PipelineOptions optionsOf(const PipelineArguments& given) {
  PipelineOptions options;
  given.read("gradient_accumulation_count", options.gradientAccumulationCount);
  given.read("repeat_count", options.repeatCount);
  given.read("inputs", options.inputs);
  options.infeed = given.get("infeed").cast<InfeedPtr>().get();
  options.outfeed = given.get("outfeed").cast<OutfeedPtr>().get();
  options.optimizerFunction = optimizerFunctionOf(given.get("optimizer_function"));
  options.deviceMapping =
      mappingOf(given.get("device_mapping").cast<std::vector<std::vector<std::int32_t>>>());
  options.pipelineSchedule =
      choice<PipelineSchedule>("pipeline_schedule",
                               given.get("pipeline_schedule").cast<std::string>(),
                               {{"Grouped", PipelineSchedule::Grouped},
                                {"Interleaved", PipelineSchedule::Interleaved},
                                {"Sequential", PipelineSchedule::Sequential}});
  using Mode = RecomputationMode;
  options.recomputationMode = choice<Mode>(
      "recomputation_mode",
      given.get("recomputation_mode").cast<std::string>(),
      {{"Auto", Mode::Auto},
       {"RecomputeThenBackpropagate", Mode::RecomputeThenBackpropagate},
       {"RecomputeAndBackpropagateInterleaved", Mode::RecomputeAndBackpropagateInterleaved}});
  readPlaces(given, options);
  options.gradientAccumulationDtype = accumulationDtype(given.get("gradient_accumulation_dtype"));
  options.reductionMethod = reductionNamed(given.get("reduction_method").cast<std::string>());
  given.read("outfeed_loss", options.outfeedLoss);
  given.read("accumulate_outfeed", options.accumulateOutfeed);
  given.read("batch_serialization_iterations", options.batchSerializationIterations);
  given.read("continuous_weight_updates", options.continuousWeightUpdates);
  return options;
}

Tensors pipelineOf(const std::vector<std::vector<py::function>>& stages, const py::dict& given) {
  const PipelineOptions options = optionsOf(PipelineArguments(given));
  const std::vector<PipelineStage> all = stagesOf(stages);
  if (options.infeed != nullptr) {
    awaitTypes(*options.infeed);
  }
  const Unlocked release;
  return pipeline(all, options);
}

}  // namespace

void bindLoops(py::module_& m) {
  py::class_<CompiledFunction, FunctionPtr>(
      m, "CompiledFunction", "A function that contains a repeat() or a pipeline().")
      .def(py::init(&makeFunction),
           py::arg("module"),
           py::arg("options"),
           py::arg("function"),
           py::keep_alive<1, 2>())
      .def("run", &run, py::arg("inputs"))
      .def(
          "compile",
          [](CompiledFunction& self, const std::vector<HostTensor>& inputs) {
            self.compile(inputs);
          },
          py::arg("inputs"),
          Release())
      .def(
          "cancel", [](CompiledFunction& self) { return self.model().cancel(); }, Release())
      .def_property_readonly(
          "model", &CompiledFunction::model, py::return_value_policy::reference_internal);
  m.def("repeat",
        &repeatBody,
        py::arg("count"),
        py::arg("body"),
        py::arg("inputs"),
        py::arg("infeed") = nullptr);
  m.def("enqueue", &enqueueTensors, py::arg("outfeed"), py::arg("values"));
  m.def("enqueue_named", &enqueueNamed, py::arg("outfeed"), py::arg("values"));
  m.def("minimize", &minimize, py::arg("rule"), py::arg("loss"));
  m.def("pipeline", &pipelineOf, py::arg("stages"), py::arg("options"));
}

}  // namespace sluice::python
