// Functions of models that are more than one op, by PyTorch's or PopTorch's names.
#include <map>

#include "python/core/attributes.h"
#include "python/core/bindings.h"
#include "python/core/choice.h"
#include "sluice/base/error.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/helpers.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/linear_ops.h"

namespace sluice::python {
namespace {

using nn::Tensor;
using Tensors = std::vector<Tensor>;

nn::Reduction reduction(const std::string& given) {
  return choice<nn::Reduction>(
      "reduction",
      given,
      {{"mean", nn::Reduction::Mean}, {"sum", nn::Reduction::Sum}, {"none", nn::Reduction::None}});
}

Tensor einsum(const std::string& equation, Tensors operands) {
  nn::resolveTypes("tensordot", operands);  // the name that policies have for it
  ir::GraphBuilder& b = nn::Tracer::current().builder();
  return {b, ops::einsum(b, equation, nn::valuesOf(operands))};
}

Tensor attention(const Tensor& q,
                 const Tensor& k,
                 const Tensor& v,
                 const std::optional<Tensor>& mask,
                 bool causal,
                 std::optional<double> scale) {
  return nn::scaledDotProductAttention(
      q, k, v, {.mask = mask.value_or(Tensor()), .scale = scale, .causal = causal});
}

Tensor conv(const Tensor& x,
            const Tensor& w,
            const std::optional<Tensor>& bias,
            const nn::Extents& stride,
            const nn::Extents& padding,
            const nn::Extents& dilation,
            std::int64_t groups) {
  const nn::ConvOptions options{stride, padding, dilation, groups};
  const Tensor b = bias.value_or(Tensor());
  switch (x.shape().rank()) {
    case 3:
      return nn::conv1d(x, w, options, b);
    case 4:
      return nn::conv2d(x, w, options, b);
    case 5:
      return nn::conv3d(x, w, options, b);
    default:
      raise<InvalidArgument>("conv: expected an input with 1 to 3 spatial axes, got {}",
                             x.type().str());
  }
}

Tensor serialized(const Tensor& lhs,
                  const Tensor& rhs,
                  const std::string& mode,
                  std::int64_t factor,
                  bool keepPrecision) {
  using Mode = nn::MatMulSerializationMode;
  return nn::serializedMatMul(lhs,
                              rhs,
                              choice<Mode>("mode",
                                           mode,
                                           {{"InputChannels", Mode::InputChannels},
                                            {"ReducingDim", Mode::ReducingDim},
                                            {"OutputChannels", Mode::OutputChannels},
                                            {"Disabled", Mode::Disabled}}),
                              factor,
                              keepPrecision);
}

nn::Body bodyOf(const py::function& function) {
  return [function](Tensors inputs) { return function(std::move(inputs)).cast<Tensors>(); };
}

Tensor print(const Tensor& x, const std::string& title, bool gradient, const py::dict& text) {
  nn::PrintOptions options;
  options.title = title;
  options.printGradient = gradient;
  const auto set = [&]<class T>(const char* name, T& field) {
    if (text.contains(name)) {
      field = text[name].cast<T>();
    }
  };
  set("summarise_threshold", options.text.summariseThreshold);
  set("edge_items", options.text.edgeItems);
  set("max_line_width", options.text.maxLineWidth);
  set("digits", options.text.digits);
  if (text.contains("float_format")) {
    options.text.floatFormat =
        choice<ops::FloatFormat>("float_format",
                                 text["float_format"].cast<std::string>(),
                                 {{"auto", ops::FloatFormat::Auto},
                                  {"fixed", ops::FloatFormat::Fixed},
                                  {"scientific", ops::FloatFormat::Scientific},
                                  {"none", ops::FloatFormat::None}});
  }
  set("separator", options.text.separator);
  set("open_bracket", options.text.openBracket);
  set("close_bracket", options.text.closeBracket);
  return nn::printTensor(x, options);
}

std::vector<TensorType> typesOf(
    const std::vector<std::pair<std::vector<std::int64_t>, std::string>>& given) {
  std::vector<TensorType> types;
  for (const auto& [shape, dtype] : given) {
    types.push_back({parseDtype(dtype), Shape(shape)});
  }
  return types;
}

/// A host function as an op; Python's lock is taken while it runs.
class HostOp {
 public:
  HostOp(const py::function& function, std::string id)
      : cpu_(
            [kept = keep(function)](std::span<const HostTensor> inputs) {
              const Locked gil;
              const py::object results =
                  py::handle(kept.get())(std::vector<HostTensor>(inputs.begin(), inputs.end()));
              return results.cast<std::vector<HostTensor>>();
            },
            std::move(id)) {}

  Tensors call(
      const Tensors& inputs,
      const std::vector<std::pair<std::vector<std::int64_t>, std::string>>& results) const {
    return cpu_(inputs, typesOf(results));
  }

 private:
  nn::CPU cpu_;
};

/// A MultiConv whose body is a with statement.
class OpenMultiConv {
 public:
  OpenMultiConv(std::vector<double> proportions,
                const std::vector<std::string>& partials,
                std::vector<bool> dithering,
                const std::string& plan,
                std::int64_t reservedTiles,
                double cycleBackOff) {
    using Plan = nn::MultiConvPlanType;
    settings_.planType(
        choice<Plan>("plan_type", plan, {{"Parallel", Plan::Parallel}, {"Serial", Plan::Serial}}));
    settings_.perConvReservedTiles(reservedTiles).cycleBackOff(cycleBackOff);
    if (!proportions.empty()) {
      settings_.availableMemoryProportions(std::move(proportions));
    }
    if (!dithering.empty()) {
      settings_.enableConvDithering(std::move(dithering));
    }
    std::vector<DType> types;
    for (const std::string& name : partials) {
      types.push_back(parseDtype(name));
    }
    if (!types.empty()) {
      settings_.partialsTypes(std::move(types));
    }
  }

  void enter() { scope_.emplace(); }
  void exit(const py::object& errorType) {
    if (errorType.is_none()) {
      try {
        settings_.finish();
      } catch (...) {
        scope_.reset();
        throw;
      }
    }
    scope_.reset();
  }

 private:
  nn::MultiConv settings_;
  std::optional<nn::MultiConv::Scope> scope_;
};

void bindMultiConv(py::module_& m) {
  py::class_<OpenMultiConv>(m, "MultiConv", "A group of convolutions with common options.")
      .def(py::init<std::vector<double>,
                    const std::vector<std::string>&,
                    std::vector<bool>,
                    const std::string&,
                    std::int64_t,
                    double>(),
           py::arg("available_memory_proportions") = std::vector<double>{},
           py::arg("partials_types") = std::vector<std::string>{},
           py::arg("enable_conv_dithering") = std::vector<bool>{},
           py::arg("plan_type") = "Parallel",
           py::arg("per_conv_reserved_tiles") = 0,
           py::arg("cycle_back_off") = 0.1)
      .def("__enter__", &OpenMultiConv::enter)
      .def("__exit__",
           [](OpenMultiConv& self, const py::object& type, const py::object&, const py::object&) {
             self.exit(type);
           });
}

Tensors customOp(const Tensors& inputs,
                 const std::string& name,
                 const std::string& domain,
                 std::int64_t version,
                 const std::vector<std::pair<std::vector<std::int64_t>, std::string>>& examples,
                 const py::dict& attributes) {
  ops::CustomOpUse use{
      .name = name, .domain = domain, .version = version, .exampleOutputs = typesOf(examples)};
  use.attributes = customAttributes(attributes);
  return nn::customOp(inputs, use);
}

void bindLosses(py::module_& f) {
  f.def(
      "cross_entropy",
      [](const Tensor& x,
         const Tensor& labels,
         const std::string& r,
         std::int64_t ignore,
         double s) {
        return nn::crossEntropy(x, labels, {reduction(r), ignore, s});
      },
      py::arg("logits"),
      py::arg("labels"),
      py::arg("reduction") = "mean",
      py::arg("ignore_index") = -100,
      py::arg("label_smoothing") = 0.0);
  f.def(
      "nll_loss",
      [](const Tensor& x, const Tensor& labels, const std::string& r, std::int64_t ignore) {
        return nn::nllLoss(x, labels, {reduction(r), ignore});
      },
      py::arg("log_probabilities"),
      py::arg("labels"),
      py::arg("reduction") = "mean",
      py::arg("ignore_index") = -100);
  const std::map<const char*, Tensor (*)(const Tensor&, const Tensor&, nn::Reduction)> kLosses{
      {"mse_loss", &nn::mseLoss},
      {"l1_loss", &nn::l1Loss},
      {"bce_loss", &nn::bceLoss},
      {"bce_with_logits", &nn::bceWithLogits}};
  for (const auto& [name, loss] : kLosses) {
    f.def(
        name,
        [loss = loss](const Tensor& x, const Tensor& target, const std::string& r) {
          return loss(x, target, reduction(r));
        },
        py::arg("x"),
        py::arg("target"),
        py::arg("reduction") = "mean");
  }
  f.def(
      "identity_loss",
      [](const Tensor& x, const std::string& r) { return nn::identityLoss(x, reduction(r)); },
      py::arg("x"),
      py::arg("reduction") = "mean");
}

void bindHelpers(py::module_& f) {
  f.def("serialized_matmul",
        &serialized,
        py::arg("lhs"),
        py::arg("rhs"),
        py::arg("mode"),
        py::arg("factor") = 0,
        py::arg("keep_precision") = false);
  f.def("set_available_memory", &nn::setAvailableMemory, py::arg("x"), py::arg("proportion") = 0.6);
  f.def("recomputation_checkpoint",
        py::overload_cast<const Tensor&>(&nn::recomputationCheckpoint),
        py::arg("x"));
  f.def("dynamic_slice",
        &nn::dynamicSlice,
        py::arg("x"),
        py::arg("axis"),
        py::arg("start"),
        py::arg("size"),
        py::arg("step") = 1);
  f.def("dynamic_update",
        &nn::dynamicUpdate,
        py::arg("x"),
        py::arg("update"),
        py::arg("axis"),
        py::arg("start"));
  f.def("nop", &nn::nop, py::arg("x"));
  f.def("tensor_location", &nn::tensorLocation, py::arg("x"), py::arg("on_chip"));
  f.def("all_reduce", &nn::allReduce, py::arg("x"));
  f.def("print_tensor",
        &print,
        py::arg("x"),
        py::arg("title") = "",
        py::arg("print_gradient") = true,
        py::arg("text") = py::dict());
  f.def(
      "ctc_beam_search_decoder",
      [](const Tensor& p,
         const Tensor& lengths,
         std::int64_t blank,
         std::int64_t width,
         std::int64_t top) {
        const nn::CtcDecoded d = nn::ctcBeamSearchDecoder(p, lengths, {blank, width, top});
        return py::make_tuple(d.probabilities, d.lengths, d.paths);
      },
      py::arg("log_probabilities"),
      py::arg("lengths"),
      py::arg("blank") = 0,
      py::arg("beam_width") = 100,
      py::arg("top_paths") = 1);
  f.def(
      "for_loop",
      [](std::int64_t count, const py::function& body, Tensors inputs) {
        return nn::forLoop(count, bodyOf(body), std::move(inputs));
      },
      py::arg("count"),
      py::arg("body"),
      py::arg("inputs"));
  f.def(
      "cond",
      [](const Tensor& c, const py::function& a, Tensors x, const py::function& b, Tensors y) {
        return nn::cond(c, bodyOf(a), std::move(x), bodyOf(b), std::move(y));
      },
      py::arg("condition"),
      py::arg("then_body"),
      py::arg("then_inputs"),
      py::arg("else_body"),
      py::arg("else_inputs"));
  f.def("custom_op",
        &customOp,
        py::arg("inputs"),
        py::arg("name"),
        py::arg("domain"),
        py::arg("version"),
        py::arg("example_outputs"),
        py::arg("attributes") = py::dict());
}

}  // namespace

void bindFunctions(py::module_& m) {
  py::module_ f = m.def_submodule("functions", "Functions that are more than one op.");
  f.def(
      "linear",
      [](const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias) {
        return nn::linear(x, w, bias.value_or(Tensor()));
      },
      py::arg("x"),
      py::arg("weight"),
      py::arg("bias") = py::none());
  f.def("matmul", &nn::matmul, py::arg("x"), py::arg("y"));
  f.def("einsum", &einsum, py::arg("equation"), py::arg("operands"));
  f.def("conv",
        &conv,
        py::arg("x"),
        py::arg("weight"),
        py::arg("bias") = py::none(),
        py::arg("stride") = nn::Extents{1},
        py::arg("padding") = nn::Extents{0},
        py::arg("dilation") = nn::Extents{1},
        py::arg("groups") = 1);
  f.def("dropout", &nn::dropout, py::arg("x"), py::arg("p"), py::arg("training") = true);
  f.def("scaled_dot_product_attention",
        &attention,
        py::arg("q"),
        py::arg("k"),
        py::arg("v"),
        py::arg("mask") = py::none(),
        py::arg("causal") = false,
        py::arg("scale") = py::none());
  f.def(
      "batch_norm",
      [](const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
        const nn::BatchNormResult r = nn::batchNorm(x, weight, bias, eps);
        return py::make_tuple(r.y, r.mean, r.variance);
      },
      py::arg("x"),
      py::arg("weight"),
      py::arg("bias"),
      py::arg("eps") = 1e-5);
  f.def(
      "batch_norm_inference",
      [](const Tensor& x,
         const Tensor& w,
         const Tensor& b,
         const Tensor& mean,
         const Tensor& var,
         double eps) {
        return nn::batchNorm(x, w, b, {mean, var}, eps);
      },
      py::arg("x"),
      py::arg("weight"),
      py::arg("bias"),
      py::arg("mean"),
      py::arg("variance"),
      py::arg("eps") = 1e-5);
  f.def(
      "cast",
      [](const Tensor& x, const std::string& dtype) { return nn::cast(x, parseDtype(dtype)); },
      py::arg("x"),
      py::arg("dtype"));
  bindMultiConv(m);
  bindLosses(f);
  bindHelpers(f);
  py::class_<HostOp>(m, "HostOp", "A Python function as an op of a model.")
      .def(py::init<const py::function&, std::string>(), py::arg("function"), py::arg("id"))
      .def("__call__", &HostOp::call, py::arg("inputs"), py::arg("results"));
}

}  // namespace sluice::python
