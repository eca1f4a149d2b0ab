#include "sluice/frontends/popart/session.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "sluice/api/batch.h"
#include "sluice/api/graph_source.h"
#include "sluice/api/session.h"
#include "sluice/base/error.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice {
namespace {

constexpr std::string_view kGradientOf = "Gradient___";

struct Word {
  std::string_view text;
  OutputMode mode;
};
constexpr std::array<Word, 4> kWords = {{{"all", OutputMode::All},
                                         {"everyn", OutputMode::EveryN},
                                         {"final", OutputMode::Final},
                                         {"sum", OutputMode::Sum}}};

OutputMode modeOf(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto found = std::ranges::find(kWords, lower, &Word::text);
  if (found == kWords.end()) {
    raise<InvalidArgument>("AnchorReturnType: expected All, EveryN, Final or Sum, got '{}'", text);
  }
  return found->mode;
}

/// As PopART lays an anchor out.
Shape anchorShape(const BatchLayout& layout, const Shape& perMicroBatch) {
  std::vector<std::int64_t> dims;
  const auto add = [&](std::int64_t extent) {
    if (extent != 1) {
      dims.push_back(extent);
    }
  };
  if (layout.outputMode == OutputMode::All) {
    add(layout.deviceIterations);
    add(layout.gradientAccumulation);
  } else if (layout.outputMode == OutputMode::EveryN) {
    add(layout.microBatches() / layout.outputPeriod);
  }
  add(layout.replicationFactor);
  dims.insert(dims.end(), perMicroBatch.dims().begin(), perMicroBatch.dims().end());
  return Shape(std::move(dims));
}

/// What comes first in an array of more elements.
HostTensor firstElements(const HostTensor& array, const Shape& shape) {
  HostTensor first(array.dtype(), shape);
  std::memcpy(first.bytes(), array.bytes(), first.byteCount());
  return first;
}

/// A file if there is one of that name, else the bytes of a model. No bytes of a model are the name
/// of a file: they have characters that names do not have, or are longer.
onnx::ImportedModel importedModel(std::string_view model, bool training) {
  const onnx::ImportOptions options{.training = training};
  std::error_code unusable;
  if (model.find('\0') == std::string_view::npos &&
      std::filesystem::exists(std::filesystem::path(model), unusable)) {
    return onnx::importModel(std::filesystem::path(model), options);
  }
  constexpr std::size_t kLongestName = 4096;
  const bool isText =
      std::ranges::all_of(model, [](unsigned char c) { return std::isprint(c) != 0; });
  if (isText && model.size() < kLongestName) {
    raise<FileError>("session: '{}' is neither a file nor the bytes of an ONNX model", model);
  }
  return onnx::importModelBytes(std::as_bytes(std::span(model)), options);
}

}  // namespace

AnchorReturnType::AnchorReturnType(std::string_view text, std::int64_t period, bool hasPeriod)
    : mode_(modeOf(text)) {
  if (mode_ == OutputMode::EveryN) {
    if (!hasPeriod || period <= 0) {
      raise<InvalidArgument>("AnchorReturnType: EveryN needs a period above 0{}",
                             hasPeriod ? fmt::format(", got {}", period) : "");
    }
    period_ = period;
  } else if (hasPeriod) {
    raise<InvalidArgument>(
        "AnchorReturnType: only EveryN has a period, got {} for {}", period, text);
  }
}

DataFlow::DataFlow(std::int64_t batchesPerStep, Anchors anchors)
    : batchesPerStep_(batchesPerStep), anchors_(std::move(anchors)) {
  if (batchesPerStep <= 0) {
    raise<InvalidArgument>("DataFlow: batchesPerStep must be above 0, got {}", batchesPerStep);
  }
}

DataFlow::DataFlow(std::int64_t batchesPerStep,
                   const std::vector<TensorId>& tensors,
                   const AnchorReturnType& type)
    : DataFlow(batchesPerStep) {
  for (const TensorId& id : tensors) {
    anchors_.insert_or_assign(id, type);
  }
}

Options GraphSession::optionsFor(const DataFlow& flow, const Options& options) {
  Options all = options.clone();
  all.deviceIterations(flow.batchesPerStep());
  for (const auto& [id, type] : flow.anchors()) {
    all.anchorTensor(id, id, type.mode(), type.period());
  }
  return all;
}

GraphSession::GraphSession(Builder& builder, const DataFlow& flow, Model model)
    : flow_(flow), model_(std::move(model)) {
  const ir::Graph& graph = builder.graph();
  for (const ir::OpId id : graph.inputs()) {
    inputs_.emplace_back(graph.op(id).name, graph.op(id).outputs[0]);
  }
  for (const auto& [id, type] : flow_.anchors()) {
    const TensorId of = id.starts_with(kGradientOf) ? id.substr(kGradientOf.size()) : id;
    if (!builder.contains(of)) {
      raise<InvalidArgument>("DataFlow: graph '{}' has no tensor '{}'", graph.name(), of);
    }
    anchored_.emplace(id, graph.type(builder.value(of)));
  }
  for (const ir::Variable& variable : builder.graph().variables()) {
    if (variable.role == ir::VariableRole::Weight || variable.role == ir::VariableRole::Buffer) {
      Session& session = model_.session();
      weights_.insert_or_assign(variable.name,
                                session.contains(variable.name)
                                    ? session.read(variable.name)
                                    : ir::initialValue(variable, session.seed()));
    }
  }
  std::vector<TensorType> types;
  for (const auto& [name, type] : inputs_) {
    types.push_back(type);
  }
  model_.check(types);
}

TensorType GraphSession::inputType(std::size_t input) const {
  const TensorType& type = inputs_[input].second;
  std::vector<std::int64_t> dims = type.shape.dims();
  if (!dims.empty()) {
    dims[0] *= model_.batchLayout().inputFactor();
  }
  return {type.dtype, Shape(std::move(dims))};
}

void GraphSession::prepareDevice() {
  const runtime::Turn::Hold turn = model_.exclusive();
  std::vector<HostTensor> inputs;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    inputs.emplace_back(inputType(i));
  }
  model_.compile(inputs);
  prepared_ = true;
}

void GraphSession::requirePrepared(std::string_view what) const {
  if (!prepared_) {
    raise<InvalidArgument>("{}: call prepareDevice first", what);
  }
}

void GraphSession::weightsFromHost() {
  const runtime::Turn::Hold turn = model_.exclusive();
  requirePrepared("weightsFromHost");
  if (constantWeights_) {
    raise<InvalidArgument>(
        "weightsFromHost: the weights are constants of the program; make the session with "
        "constantWeights = false");
  }
  for (const auto& [name, value] : weights_) {
    model_.session().write(name, value);
  }
}

void GraphSession::weightsToHost() {
  const runtime::Turn::Hold turn = model_.exclusive();
  requirePrepared("weightsToHost");
  if (constantWeights_) {
    return;  // they never change
  }
  for (auto& [name, value] : weights_) {
    value = model_.session().read(name);
  }
}

NamedTensors GraphSession::initAnchorArrays() const {
  const runtime::Turn::Hold turn = model_.exclusive();
  requirePrepared("initAnchorArrays");
  NamedTensors arrays;
  for (const auto& [id, type] : flow_.anchors()) {
    const TensorType& made = anchored_.at(id);
    const BatchLayout layout = model_.batchLayout().withOutput(type.mode(), type.period());
    arrays.insert_or_assign(id, HostTensor(made.dtype, anchorShape(layout, made.shape)));
  }
  return arrays;
}

std::vector<HostTensor> GraphSession::gather(const StepIO& io) {
  for (const auto& [name, value] : io.inputs) {
    if (std::ranges::find(inputs_, name, &NamedTypes::value_type::first) == inputs_.end()) {
      model_.session().warnOnce(
          fmt::format("StepIO: the graph has no input '{}': it is not used", name));
    }
  }
  std::vector<HostTensor> tensors;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto& [name, type] = inputs_[i];
    const auto given = io.inputs.find(name);
    if (given == io.inputs.end()) {
      raise<InvalidArgument>("StepIO: input '{}' is missing", name);
    }
    const HostTensor& array = given->second;
    if (array.dtype() != type.dtype) {
      raise<InvalidArgument>(
          "StepIO: input '{}' is {}, got {}", name, type.str(), array.type().str());
    }
    const Shape wanted = inputType(i).shape;
    if (!io.runtimeAsserts && array.shape().elements() > wanted.elements()) {
      tensors.push_back(firstElements(array, wanted));
      continue;
    }
    if (type.shape.rank() > 0) {  // a scalar is the same for all micro-batches
      model_.batchLayout().requireInputElements(
          name, type.shape.elements(), array.shape().elements());
    }
    tensors.push_back(array.reshaped(wanted));
  }
  return tensors;
}

void GraphSession::requireRoom(const StepIO& io) const {
  for (const auto& [name, array] : io.outputs) {
    const auto anchor = flow_.anchors().find(name);
    if (anchor == flow_.anchors().end()) {
      raise<InvalidArgument>("StepIO: output '{}' is not anchored in the DataFlow", name);
    }
    const TensorType& made = anchored_.at(name);
    if (array.dtype() != made.dtype) {
      raise<InvalidArgument>(
          "StepIO: output '{}' is {}, got {}", name, made.str(), array.type().str());
    }
    const BatchLayout layout =
        model_.batchLayout().withOutput(anchor->second.mode(), anchor->second.period());
    const std::int64_t elements = array.shape().elements();
    if (io.runtimeAsserts || elements < anchorShape(layout, made.shape).elements()) {
      layout.requireOutputElements(name, made.shape.elements(), elements);
    }
  }
}

void GraphSession::run(const StepIO& io) {
  const runtime::Turn::Hold turn = model_.exclusive();
  requirePrepared("run");
  requireRoom(io);
  static_cast<void>(model_.run(gather(io)));
  for (auto& [name, array] : io.outputs) {
    const HostTensor result = model_.getAnchoredTensor(name);
    std::memcpy(array.bytes(), result.bytes(), result.byteCount());
  }
}

TrainingSession::TrainingSession(Builder& builder,
                                 const DataFlow& flow,
                                 const TensorId& loss,
                                 const optim::Optimizer& optimizer,
                                 const Options& options)
    : GraphSession(
          builder, flow, trainingModel(builder, loss, optionsFor(flow, options), optimizer)) {}

TrainingSession::TrainingSession(std::string_view model,
                                 const DataFlow& flow,
                                 const TensorId& loss,
                                 const optim::Optimizer& optimizer,
                                 const Options& options)
    : TrainingSession(
          *std::make_unique<Builder>(importedModel(model, true)), flow, loss, optimizer, options) {}

InferenceSession::InferenceSession(Builder& builder,
                                   const DataFlow& flow,
                                   const Options& options,
                                   bool constantWeights)
    : GraphSession(builder,
                   flow,
                   Model(builderSource(builder, std::nullopt, constantWeights),
                         optionsFor(flow, options),
                         nullptr)) {
  constantWeights_ = constantWeights;
}

InferenceSession::InferenceSession(std::string_view model,
                                   const DataFlow& flow,
                                   const Options& options,
                                   bool constantWeights)
    : InferenceSession(
          *std::make_unique<Builder>(importedModel(model, false)), flow, options, constantWeights) {
}

}  // namespace sluice
