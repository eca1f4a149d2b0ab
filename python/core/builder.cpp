// The Builder of the PopART front end. sluice.popart gives it PopART's names; ops come by their
// names in the standard.
#include "sluice/frontends/popart/builder.h"

#include <algorithm>
#include <unordered_map>

#include "python/core/attributes.h"
#include "python/core/bindings.h"
#include "python/core/builder.h"
#include "python/core/scope.h"
#include "sluice/base/error.h"
#include "sluice/onnx/files.h"
#include "sluice/ops/op_list.h"

namespace sluice::python {
namespace {

using Ids = std::vector<TensorId>;
using Types = std::vector<std::pair<std::vector<std::int64_t>, std::string>>;

TensorType typeOf(const std::string& dtype, std::vector<std::int64_t> shape) {
  return {parseDtype(dtype), Shape(std::move(shape))};
}

ir::Attr listAttr(const std::string& name, const py::handle& value) {
  const auto first = py::reinterpret_borrow<py::sequence>(value)[0];
  if (py::isinstance<py::str>(first)) {
    return value.cast<std::vector<std::string>>();
  }
  if (py::isinstance<py::int_>(first)) {
    return value.cast<std::vector<std::int64_t>>();
  }
  if (py::isinstance<py::float_>(first)) {
    return value.cast<std::vector<double>>();
  }
  raise<InvalidArgument>("attribute '{}' is a list of {}; expected numbers or texts",
                         name,
                         py::repr(py::type::of(first)).cast<std::string>());
}

/// An attribute as the standard writes it: truth values are integers.
ir::Attr plainAttr(const std::string& name, const py::handle& value) {
  if (py::isinstance<py::int_>(value)) {
    return value.cast<std::int64_t>();
  }
  if (py::isinstance<py::float_>(value)) {
    return value.cast<double>();
  }
  if (py::isinstance<py::str>(value)) {
    return value.cast<std::string>();
  }
  if (py::isinstance<HostTensor>(value)) {
    return value.cast<HostTensor>();
  }
  if (py::isinstance<py::list>(value) && py::len(value) > 0) {
    return listAttr(name, value);
  }
  raise<InvalidArgument>(
      "attribute '{}': expected a number, a text, a tensor or a list that is not empty, got {}",
      name,
      py::repr(value).cast<std::string>());
}

struct OpRequest {
  std::string domain;
  std::string op;
  Ids inputs;
  py::dict attributes;
  std::size_t outputs = 1;
  int opset = 17;
  std::string name;
  std::map<std::string, std::shared_ptr<Builder>> bodies;
};

Ids makeOp(Builder& builder, const OpRequest& request) {
  OpCall call{.op = request.op,
              .inputs = {request.inputs.begin(), request.inputs.end()},
              .outputs = request.outputs,
              .domain = request.domain,
              .opset = request.opset,
              .training = true,  // an inference session takes it out again
              .name = request.name};
  for (const auto& [key, value] : request.attributes) {
    const auto name = key.cast<std::string>();
    call.attrs.emplace_back(name, plainAttr(name, value));
  }
  for (const auto& [name, body] : request.bodies) {
    call.bodies.emplace_back(name, &body->graph());
  }
  return builder.op(std::move(call));
}

std::int32_t ir::Placement::*fieldOf(const std::string& name) {
  if (name == "device") {
    return &ir::Placement::device;
  }
  return name == "stage" ? &ir::Placement::stage : &ir::Placement::phase;
}

void place(Builder& builder, const std::string& field, const TensorId& id, std::int64_t number) {
  if (field == "device") {
    builder.virtualGraph(id, number);
  } else if (field == "stage") {
    builder.pipelineStage(id, number);
  } else {
    builder.executionPhase(id, number);
  }
}

PlacementScope placed(Builder& builder, const std::string& field, std::int64_t number) {
  return field == "device"  ? builder.virtualGraph(number)
         : field == "stage" ? builder.pipelineStage(number)
                            : builder.executionPhase(number);
}

Scope<PlacementScope> placementScope(const std::shared_ptr<Builder>& builder,
                                     const std::string& field,
                                     std::int64_t number) {
  return Scope<PlacementScope>([=] {
    return std::unique_ptr<PlacementScope>(new PlacementScope(placed(*builder, field, number)));
  });
}

/// -1: none was said.
std::int32_t placementOf(const Builder& builder, const TensorId& id, const std::string& field) {
  return builder.graph().op(builder.value(id).op).place.*fieldOf(field);
}

Ids customOp(Builder& builder,
             const Ids& inputs,
             const std::string& name,
             const std::string& domain,
             std::int64_t version,
             const Types& examples,
             const py::dict& attributes) {
  ops::CustomOpUse use{.name = name, .domain = domain, .version = version};
  for (const auto& [shape, dtype] : examples) {
    use.exampleOutputs.push_back(typeOf(dtype, shape));
  }
  use.attributes = customAttributes(attributes);
  return builder.customOp(inputs, use);
}

std::vector<std::string> inputNames(const Builder& builder) {
  std::vector<std::string> names;
  for (const ir::OpId id : builder.graph().inputs()) {
    names.push_back(builder.graph().op(id).name);
  }
  return names;
}

std::vector<std::string> outputNames(const Builder& builder) {
  std::vector<std::string> names;
  for (const ir::Output& output : builder.graph().outputs()) {
    names.push_back(output.name);
  }
  return names;
}

/// The names of the weights, and whether each is trained.
std::vector<std::pair<std::string, bool>> weightsOf(const Builder& builder) {
  std::vector<std::pair<std::string, bool>> weights;
  for (const ir::Variable& variable : builder.graph().variables()) {
    weights.emplace_back(variable.name, variable.trainable);
  }
  return weights;
}

/// The tensors that no op reads, by the name that each got first.
Ids unusedTensors(const Builder& builder) {
  const ir::Users users = builder.graph().users();
  Ids unused;
  std::vector<ir::Value> seen;
  for (const TensorId& id : builder.tensorIds()) {
    const ir::Value value = builder.value(id);
    if (users.of(value).empty() && std::ranges::find(seen, value) == seen.end()) {
      unused.push_back(id);
      seen.push_back(value);
    }
  }
  return unused;
}

HostTensor startValue(const Builder& builder, const std::string& weight) {
  const ir::Variable* variable = builder.graph().findVariable(weight);
  if (variable == nullptr) {
    raise<InvalidArgument>("graph '{}' has no weight '{}'", builder.graph().name(), weight);
  }
  return ir::initialValue(*variable, 0);
}

std::shared_ptr<Builder> fromModel(const py::object& model, bool training) {
  const onnx::ImportOptions options{.training = training};
  if (py::isinstance<py::bytes>(model)) {
    const auto bytes = model.cast<std::string>();
    return std::make_shared<Builder>(
        onnx::importModelBytes(std::as_bytes(std::span(bytes)), options));
  }
  return std::make_shared<Builder>(onnx::importModel(model.cast<std::string>(), options));
}

void bindPlacement(py::class_<Builder, std::shared_ptr<Builder>>& builder) {
  builder.def("place", &place, py::arg("field"), py::arg("tensor"), py::arg("number"))
      .def("placement", &placementOf, py::arg("tensor"), py::arg("field"))
      .def("set_on_chip", &Builder::outputTensorLocation, py::arg("tensor"), py::arg("on_chip"))
      .def(
          "snapshot",
          &snapshot,
          py::arg("drops"),
          "A builder with the graph as it is now, and weights of its own. Without `drops`, dropout "
          "passes everything.");
}

void bindQueries(py::class_<Builder, std::shared_ptr<Builder>>& builder) {
  builder
      .def("shape",
           [](const Builder& self, const TensorId& id) {
             return shapeTuple(self.getTensorShape(id));
           })
      .def("dtype",
           [](const Builder& self, const TensorId& id) {
             return dtypeName(self.getTensorDtype(id));
           })
      .def("__contains__", &Builder::contains)
      .def("tensors", &Builder::tensorIds)
      .def("inputs", &inputNames)
      .def("outputs", &outputNames)
      .def("weights", &weightsOf)
      .def("unused", &unusedTensors, "The tensors that no op reads.")
      .def("start_value", &startValue, py::arg("weight"))
      .def("num_ops", [](const Builder& self) { return self.graph().numOps(); })
      .def(
          "model_proto",
          [](const Builder& self,
             bool exact,
             bool placements,
             std::map<std::string, HostTensor, std::less<>> values) {
            return py::bytes(self.getModelProto(
                onnx::ExportOptions{.values = std::move(values),
                                    .exact = exact ? onnx::Exact::Yes : onnx::Exact::No,
                                    .placements = placements}));
          },
          py::arg("exact") = false,
          py::arg("placements") = false,
          py::arg("values") = py::dict(),
          "The model as bytes; `values` are those of weights that are not the builder's.");
}

/// Ops that do more than compute from their operands.
void bindEffects(py::class_<Builder, std::shared_ptr<Builder>>& builder) {
  builder
      .def(
          "abort",
          [](Builder& self, const TensorId& condition) { self.aiGraphcore().abort(condition); },
          py::arg("condition") = "")
      .def(
          "print",
          [](Builder& self, const TensorId& x, bool gradient, std::string title) {
            return self.aiGraphcore().printtensor(
                x, {.title = std::move(title), .printGradient = gradient});
          },
          py::arg("x"),
          py::arg("gradient"),
          py::arg("title"))
      .def("host_store",
           [](Builder& self, const TensorId& x, const std::string& stream) {
             self.aiGraphcore().hoststore(x, stream);
           })
      .def(
          "remote_load",
          [](Builder& self, std::int64_t id, std::int64_t rows, const TensorId& like, TensorId at) {
            const TensorType type{self.getTensorDtype(like), self.getTensorShape(like)};
            return self.aiGraphcore().remoteload({.id = id, .rows = rows}, type, at);
          })
      .def("remote_store",
           [](Builder& self, std::int64_t id, std::int64_t rows, const TensorId& x, TensorId at) {
             self.aiGraphcore().remotestore({.id = id, .rows = rows}, x, at);
           });
}

}  // namespace

std::shared_ptr<Builder> snapshot(const Builder& builder, bool drops) {
  onnx::ImportedModel copy;
  copy.graph = builder.graph();
  std::unordered_map<ir::Value, ir::Value> passed;
  std::vector<ir::OpId> dropouts;
  for (const ir::OpId id : copy.graph.order()) {
    const ir::Op& op = copy.graph.op(id);
    if (!drops && (op.def->name == "dropout" || op.def->name == "shaped_dropout")) {
      const auto before = passed.find(op.inputs[0]);
      passed.emplace(op.out(), before == passed.end() ? op.inputs[0] : before->second);
      dropouts.push_back(id);
    }
  }
  copy.graph.replaceUses(passed);
  for (const TensorId& id : builder.tensorIds()) {
    const ir::Value value = builder.value(id);
    const auto found = passed.find(value);
    copy.tensors.push_back({id, found == passed.end() ? value : found->second});
  }
  copy.graph.remove(dropouts);
  return std::make_shared<Builder>(std::move(copy));
}

void bindBuilder(py::module_& m) {
  bindScope<PlacementScope>(m,
                            "PlacementScope",
                            "Ops of a Builder made inside are placed there.",
                            &placementScope,
                            py::arg("builder"),
                            py::arg("field"),
                            py::arg("number"));
  py::class_<Builder, std::shared_ptr<Builder>> builder(
      m, "Builder", "Builds a graph op by op; see sluice.popart.Builder.");
  builder.def(py::init<std::string>(), py::arg("name") = "main")
      .def_static("from_model", &fromModel, py::arg("model"), py::arg("training") = true)
      .def(
          "add_input",
          [](Builder& self,
             const std::string& dtype,
             std::vector<std::int64_t> shape,
             const std::string& name) {
            return self.addInputTensor(typeOf(dtype, std::move(shape)), name);
          },
          py::arg("dtype"),
          py::arg("shape"),
          py::arg("name") = "")
      .def(
          "add_weight", &Builder::addInitializedInputTensor, py::arg("value"), py::arg("name") = "")
      .def("add_constant", &Builder::addConstant, py::arg("value"), py::arg("name") = "")
      .def("add_output", &Builder::addOutputTensor, py::arg("tensor"))
      .def(
          "op",
          [](Builder& self,
             std::string domain,
             std::string op,
             Ids inputs,
             py::dict attributes,
             std::size_t outputs,
             int opset,
             std::string name,
             std::map<std::string, std::shared_ptr<Builder>> bodies) {
            return makeOp(self,
                          {std::move(domain),
                           std::move(op),
                           std::move(inputs),
                           std::move(attributes),
                           outputs,
                           opset,
                           std::move(name),
                           std::move(bodies)});
          },
          py::arg("domain"),
          py::arg("op"),
          py::arg("inputs"),
          py::arg("attributes") = py::dict(),
          py::arg("outputs") = 1,
          py::arg("opset") = 17,
          py::arg("name") = "",
          py::arg("bodies") = std::map<std::string, std::shared_ptr<Builder>>())
      .def("custom_op",
           &customOp,
           py::arg("inputs"),
           py::arg("name"),
           py::arg("domain"),
           py::arg("version"),
           py::arg("example_outputs"),
           py::arg("attributes"));
  bindPlacement(builder);
  bindQueries(builder);
  bindEffects(builder);
}

}  // namespace sluice::python
