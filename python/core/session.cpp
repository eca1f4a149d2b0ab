// Sessions of the PopART front end: a step's arrays come and go by name.
#include "sluice/frontends/popart/session.h"

#include "python/core/bindings.h"
#include "python/core/builder.h"
#include "python/core/interruptible.h"
#include "sluice/api/batch.h"
#include "sluice/api/model.h"
#include "sluice/base/error.h"

namespace sluice::python {
namespace {

using OptimizerPtr = std::shared_ptr<optim::Optimizer>;
using Release = py::call_guard<Unlocked>;

std::shared_ptr<GraphSession> trainingSession(Builder& builder,
                                              const DataFlow& flow,
                                              const TensorId& loss,
                                              const OptimizerPtr& optimizer,
                                              const Options& options) {
  return std::make_shared<TrainingSession>(builder, flow, loss, *optimizer, options);
}

std::shared_ptr<GraphSession> inferenceSession(Builder& builder,
                                               const DataFlow& flow,
                                               const Options& options,
                                               bool constantWeights) {
  return std::make_shared<InferenceSession>(builder, flow, options, constantWeights);
}

/// The outputs share the memory of the caller's arrays.
void run(GraphSession& session, const NamedTensors& inputs, NamedTensors outputs, bool asserts) {
  runInterruptibly(
      [&] { session.run({.inputs = inputs, .outputs = outputs, .runtimeAsserts = asserts}); },
      [&] { session.model().cancel(); });
}

py::tuple layoutOf(GraphSession& session) {
  const BatchLayout layout = unlocked([&] { return session.model().batchLayout(); });
  return py::make_tuple(layout.deviceIterations,
                        layout.gradientAccumulation,
                        layout.replicationFactor,
                        layout.inputReplicas());
}

AnchorReturnType anchorType(const std::string& word, std::optional<std::int64_t> period) {
  return period ? AnchorReturnType(word, *period) : AnchorReturnType(word);
}

void bindDataFlow(py::module_& m) {
  py::class_<AnchorReturnType>(m, "AnchorReturnType", "Which micro-batches of an anchor come back.")
      .def(py::init(&anchorType), py::arg("word"), py::arg("period") = py::none())
      .def_property_readonly("mode", [](const AnchorReturnType& self) { return name(self.mode()); })
      .def_property_readonly("period", &AnchorReturnType::period);
  py::class_<DataFlow>(m, "DataFlow", "What a step of a session takes and returns.")
      .def(py::init([](std::int64_t batches, std::map<TensorId, AnchorReturnType> anchors) {
             return DataFlow(batches, DataFlow::Anchors(anchors.begin(), anchors.end()));
           }),
           py::arg("batches_per_step"),
           py::arg("anchors"));
}

void bindSessions(py::module_& m) {
  py::class_<GraphSession, std::shared_ptr<GraphSession>>(
      m, "GraphSession", "Runs the graph of a Builder; see sluice.popart.TrainingSession.")
      .def_static("training",
                  &trainingSession,
                  py::arg("builder"),
                  py::arg("flow"),
                  py::arg("loss"),
                  py::arg("optimizer"),
                  py::arg("options"),
                  Release())
      .def_static("inference",
                  &inferenceSession,
                  py::arg("builder"),
                  py::arg("flow"),
                  py::arg("options"),
                  py::arg("constant_weights"),
                  Release())
      .def("prepare", &GraphSession::prepareDevice, Release())
      .def("weights_from_host", &GraphSession::weightsFromHost, Release())
      .def("weights_to_host", &GraphSession::weightsToHost, Release())
      .def(
          "weights", [](GraphSession& self) { return self.weights(); }, "The host's copies.")
      .def("set_weight",
           [](GraphSession& self, const std::string& name, const HostTensor& value) {
             self.weights().insert_or_assign(name, value);
           })
      .def("anchor_arrays", &GraphSession::initAnchorArrays, Release())
      .def("run",
           &run,
           py::arg("inputs"),
           py::arg("outputs"),
           py::arg("asserts") = true,
           "Runs one step and writes its results into the arrays of `outputs`.")
      .def_property_readonly(
          "layout", &layoutOf, "Iterations, accumulation, replicas, and replicas with own inputs.")
      .def_property_readonly(
          "model",
          [](GraphSession& self) -> Model& { return self.model(); },
          py::return_value_policy::reference_internal);
}

MultiDevice acquire(std::int64_t count, const std::string& pattern, const std::string& kind) {
  for (const SyncPattern known :
       {SyncPattern::Full, SyncPattern::SinglePipeline, SyncPattern::ReplicaAndLadder}) {
    if (pattern == name(known)) {
      return DeviceManager().acquireAvailableDevice(count, known, kind);
    }
  }
  raise<InvalidArgument>(
      "there is no sync pattern '{}'; there are Full, SinglePipeline and ReplicaAndLadder",
      pattern);
}

void bindDevices(py::module_& m) {
  py::class_<MultiDevice>(
      m, "MultiDevice", "Devices that a model may use and that nobody else has.")
      .def(py::init(&acquire), py::arg("count"), py::arg("pattern"), py::arg("kind"))
      .def_property_readonly("kind", &MultiDevice::kind)
      .def_property_readonly("count", &MultiDevice::count)
      .def_property_readonly("ids", &MultiDevice::ids)
      .def("release", &MultiDevice::release)
      .def("apply_to", [](const MultiDevice& self, Options& options) { self.applyTo(options); });
}

}  // namespace

void bindGraphSessions(py::module_& m) {
  bindDataFlow(m);
  bindSessions(m);
  bindDevices(m);
}

}  // namespace sluice::python
