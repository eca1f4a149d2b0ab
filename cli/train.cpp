// sluice train: an ONNX model on data from files. The loss is added to the model's first output.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/cut.h"
#include "cli/graph_file.h"
#include "cli/tensor_files.h"
#include "cli/train_callbacks.h"
#include "cli/training_setup.h"
#include "cli/wait_line.h"
#include "sluice/api/checkpoint.h"
#include "sluice/api/fit.h"
#include "sluice/base/error.h"
#include "sluice/data/files.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/session.h"
#include "sluice/onnx/files.h"
#include "sluice/tensor/safetensors.h"

namespace sluice::cli {
namespace {

constexpr std::int64_t kMostDevices = 64;

struct TrainSettings {
  GraphFile file;
  std::vector<std::string> data;
  std::string target;
  std::string loss = "cross_entropy";
  std::string optimizer = "adamw";
  std::string device;
  std::string cut = "auto";
  std::string checkpoints;
  std::string output;
  double learningRate = 1e-3;
  std::optional<double> givenRate;
  std::int64_t batch = 1;
  std::int64_t accumulate = 0;  ///< 0: 1, or twice the devices
  std::int64_t devices = 0;     ///< 0: 1, or as many as --cut makes
  std::int64_t epochs = 1;
  std::int64_t every = 100;
  double everySeconds = 0;
  std::int64_t seed = 0;
  bool inOrder = false;
};

/// The arrays of the inputs, and apart from them the targets: a file of their own, or an array of
/// the inputs' files.
struct TrainingData {
  TensorMap inputs;
  HostTensor target;
};

TrainingData readData(const TrainSettings& settings) {
  TrainingData data{readTensors("--data", settings.data), {}};
  const auto array = data.inputs.find(settings.target);
  if (array != data.inputs.end()) {
    data.target = array->second;
    data.inputs.erase(array);
  } else if (settings.target.ends_with(".npy")) {
    data.target = data::readNpy(settings.target);
  } else {
    throw CLI::ValidationError(
        "--target",
        fmt::format("expected FILE.npy or the name of an array of --data, got '{}'",
                    settings.target));
  }
  if (data.target.shape().rank() == 0) {
    raise<InvalidArgument>(
        "--target: '{}' is {}, one number: its first extent must be the number of samples",
        settings.target,
        data.target.type().str());
  }
  const std::int64_t rows = data.target.shape()[0];
  for (const auto& [name, tensor] : data.inputs) {
    if (tensor.shape().rank() == 0 || tensor.shape()[0] != rows) {
      raise<InvalidArgument>(
          "'{}' is {}, but there are {} targets: the first extent of all arrays "
          "is the number of samples",
          name,
          tensor.type().str(),
          rows);
    }
  }
  return data;
}

/// The type of a micro-batch of these samples.
TensorType batched(const HostTensor& samples, std::int64_t batch) {
  std::vector<std::int64_t> dims = samples.shape().dims();
  dims[0] = batch;
  return {samples.dtype(), Shape(std::move(dims))};
}

std::int64_t annotatedDevices(const ir::Graph& graph) {
  std::int64_t most = 0;
  for (const ir::OpId id : graph.order()) {
    most = std::max<std::int64_t>(most, graph.op(id).place.device);
  }
  if (most >= kMostDevices) {
    raise<InvalidArgument>(
        "--cut annotated: the model names device {}, but there may be {}, counted from 0: give its "
        "ops lower ones, or cut it by cost (--cut auto)",
        most,
        kMostDevices);
  }
  return most + 1;
}

/// Cuts the model where --cut names tensors. Returns the number of devices.
std::int64_t devicesOf(const TrainSettings& settings, onnx::ImportedModel& model) {
  if (settings.cut == "auto") {
    return std::max<std::int64_t>(settings.devices, 1);
  }
  const std::int64_t devices = settings.cut == "annotated"
                                   ? annotatedDevices(model.graph)
                                   : cutAfter(model, namesOf("--cut", settings.cut));
  if (settings.devices > 0 && settings.devices != devices) {
    raise<InvalidArgument>("--cut {} makes {} devices, but --devices is {}: leave it out",
                           settings.cut,
                           devices,
                           settings.devices);
  }
  return devices;
}

/// Throws InvalidArgument unless the loss can compare the output with these targets. What it reads
/// as labels may be any integers.
void requireTarget(const TrainSettings& settings,
                   const TensorType& output,
                   const HostTensor& target) {
  const TensorType expected = targetOf(settings.loss, output);
  const TensorType given = batched(target, settings.batch);
  const bool fits =
      isInteger(expected.dtype) ? isInteger(given.dtype) : expected.dtype == given.dtype;
  if (!fits || given.shape != expected.shape) {
    raise<InvalidArgument>(
        "--target: the loss {} of an output {} needs targets {} per micro-batch, got {}",
        settings.loss,
        output.str(),
        expected.str(),
        given.str());
  }
}

/// The loss is where the output is made, unless the model is cut by cost.
TensorId lossBeside(Builder& builder,
                    const TrainSettings& settings,
                    const TensorId& output,
                    const TensorId& target) {
  const ir::Placement place = builder.graph().op(builder.value(output).op).place;
  if (settings.cut == "auto" || place.device < 0) {
    return addLoss(builder, settings.loss, output, target);
  }
  const PlacementScope device = builder.virtualGraph(place.device);
  if (place.stage < 0) {
    return addLoss(builder, settings.loss, output, target);
  }
  const PlacementScope stage = builder.pipelineStage(place.stage);
  return addLoss(builder, settings.loss, output, target);
}

Options optionsOf(const TrainSettings& settings, std::int64_t devices) {
  Options options;
  options.device(settings.device).randomSeed(static_cast<std::uint64_t>(settings.seed));
  const std::int64_t pipelined = devices > 1 ? 2 * devices : 1;
  options.training.gradientAccumulation(settings.accumulate > 0 ? settings.accumulate : pipelined);
  if (devices > 1) {
    const bool isAuto = settings.cut == "auto";
    options.virtualGraphMode(isAuto ? VirtualGraphMode::Auto : VirtualGraphMode::Manual)
        .devicesPerReplica(isAuto ? devices : 1)
        .enablePipelining(true);
  }
  return options;
}

/// "x f32[8, 256]". A written model is for these sizes: reshapes may have them as numbers.
std::string inputsOf(const ir::Graph& graph) {
  std::vector<std::string> inputs;
  for (const ir::OpId id : graph.inputs()) {
    inputs.push_back(fmt::format("{} {}", graph.op(id).name, graph.op(id).outputs[0].str()));
  }
  return fmt::format("{}", fmt::join(inputs, ", "));
}

/// The trained values, for other programs: alone, or in the model as it was given, without target
/// and loss, so that it can be run and trained again.
void writeResult(const TrainSettings& settings, const ir::Graph& given, const Model& model) {
  if (settings.output.empty()) {
    return;
  }
  NamedTensors values = model.stateDict();
  if (settings.output.ends_with(".safetensors")) {
    writeSafeTensors(settings.output, {std::move(values)});
  } else {
    onnx::ExportOptions options;
    for (const ir::Variable& variable : given.variables()) {
      if (const auto found = values.find(variable.name); found != values.end()) {
        options.values.emplace(variable.name, found->second);
      }
    }
    onnx::exportModel(given, settings.output, options);
  }
  fmt::print("wrote {}{}\n",
             settings.output,
             settings.output.ends_with(".onnx")
                 ? fmt::format(" for micro-batches as in training: {}", inputsOf(given))
                 : "");
}

/// The files that a run reads.
std::vector<std::string> inputFilesOf(const TrainSettings& settings) {
  std::vector<std::string> files = {settings.file.path, settings.target};
  for (const std::string& text : settings.data) {
    files.push_back(namedFile(text).path);
  }
  return files;
}

/// Throws before the training what would keep its result from being written after it.
void requireResult(const TrainSettings& settings, const ir::Graph& given) {
  if (given.outputs().empty()) {
    raise<InvalidArgument>("{} has no output: there is nothing to compare with the target",
                           settings.file.path);
  }
  if (settings.output.ends_with(".onnx")) {
    static_cast<void>(onnx::exportModelBytes(given));
  }
}

int train(const TrainSettings& settings) {
  if (!settings.output.empty()) {
    if (!settings.output.ends_with(".onnx") && !settings.output.ends_with(".safetensors")) {
      throw CLI::ValidationError(
          "--output", fmt::format("expected *.onnx or *.safetensors, got '{}'", settings.output));
    }
    requireOutput("--output", settings.output, inputFilesOf(settings));
  }
  const TrainingData data = [&] {
    const WaitLine line("reading data");
    return readData(settings);
  }();
  std::map<std::string, Shape, std::less<>> shapes;
  for (const auto& [name, tensor] : data.inputs) {
    shapes.emplace(name, batched(tensor, settings.batch).shape);
  }
  onnx::ImportedModel imported = [&] {
    const WaitLine line("reading " + settings.file.path);
    return readModel(settings.file, shapes, true);
  }();
  const ir::Graph given = readModel(settings.file, shapes).graph;
  requireResult(settings, given);
  const std::int64_t devices = devicesOf(settings, imported);
  Builder builder(std::move(imported));
  TensorMap samples;
  for (const auto& [name, tensor] : data.inputs) {
    samples.emplace(name, HostTensor(batched(tensor, settings.batch)));
  }
  static_cast<void>(inOrder(builder.graph(), samples));  // names and types
  std::vector<HostTensor> arrays;
  for (const ir::OpId id : builder.graph().inputs()) {
    arrays.push_back(data.inputs.find(builder.graph().op(id).name)->second);
  }
  arrays.push_back(data.target);
  const TensorId y = builder.graph().outputs()[0].name;
  requireTarget(settings, builder.graph().type(builder.value(y)), data.target);
  const TensorId target =
      builder.addInputTensor(batched(data.target, settings.batch), "sluice_target");
  const TensorId loss = lossBeside(builder, settings, y, target);
  builder.addOutputTensor(loss);

  const Options options = optionsOf(settings, devices);
  Model model = trainingModel(
      builder, loss, options, *optimizerOf(settings.optimizer, settings.learningRate));
  DataLoaderOptions loading;
  loading.shuffle = settings.inOrder ? data::Shuffle::No : data::Shuffle::Yes;
  DataLoader loader(options, data::tensorDataset(arrays), settings.batch, loading);
  const TrainCallbacks callbacks = trainCallbacks(model, settings.givenRate);
  const FitResult result = fit(model,
                               loader,
                               {.epochs = settings.epochs,
                                .callbacks = callbacks.callbacks,
                                .checkpoints = {.folder = settings.checkpoints,
                                                .everySteps = settings.every,
                                                .everySeconds = settings.everySeconds,
                                                .beforeSave = callbacks.beforeSave},
                                .resume = settings.checkpoints});
  if (result.interrupted) {
    fmt::print("interrupted after {} updates{}\n",
               model.updates(),
               settings.output.empty() ? "" : "; no output is written");
    return exitCodeOf(result.signal);
  }
  writeResult(settings, given, model);
  return 0;
}

void addRates(CLI::App& command, TrainSettings& settings) {
  command.add_option("--optimizer", settings.optimizer, "sgd, adam or adamw")
      ->check(CLI::IsMember(optimizerNames()))
      ->capture_default_str();
  command
      .add_option("--lr",
                  settings.learningRate,
                  "The learning rate; a run that goes on keeps its own without it")
      ->transform(realNumber(0.0, Bound::Excluded))
      ->capture_default_str();
  command.add_option("--batch", settings.batch, "Samples of a micro-batch")
      ->transform(wholeNumber<std::int64_t>(1))
      ->capture_default_str();
  command
      .add_option("--accumulate",
                  settings.accumulate,
                  "Micro-batches of a weight update  [1, or twice the devices]")
      ->transform(wholeNumber<std::int64_t>(1));
  command.add_option("--epochs", settings.epochs, "Passes over the data")
      ->transform(wholeNumber<std::int64_t>(1))
      ->capture_default_str();
  command.add_option("--seed", settings.seed, "Of the order of samples and of dropout")
      ->transform(wholeNumber<std::int64_t>(0))
      ->capture_default_str();
  command.add_flag("--in-order", settings.inOrder, "Do not shuffle the samples");
}

}  // namespace

void addTrain(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("train", "Train an ONNX model on data from files");
  command->footer(
      "The first extent of every array is the number of samples. Example:\n"
      "  sluice train model.onnx --data images=x.npy --target labels.npy --batch 16 --devices 2\n"
      "    --epochs 3 --checkpoint run1 -o trained.onnx");
  auto settings = std::make_shared<TrainSettings>();
  addGraphFile(*command, settings->file);
  command
      ->add_option("--data",
                   settings->data,
                   "NAME=FILE.npy, or FILE.npz with an array for each input; may be repeated")
      ->required();
  command
      ->add_option("--target",
                   settings->target,
                   "What the first output should be: FILE.npy, or the name of an array of --data")
      ->required();
  command->add_option("--loss", settings->loss, "Of the first output and the target")
      ->check(CLI::IsMember(lossNames()))
      ->capture_default_str();
  addRates(*command, *settings);
  command
      ->add_option(
          "--devices", settings->devices, "Devices of the pipeline  [1, or the parts of --cut]")
      ->transform(wholeNumber<std::int64_t>(1, kMostDevices));
  command
      ->add_option("--cut",
                   settings->cut,
                   "Where the model is cut: auto, by the work of its ops; annotated, by the "
                   "devices and stages that the file names; else after these tensors: a,b")
      ->capture_default_str();
  addDeviceOption(*command, settings->device);
  command->add_option("--checkpoint",
                      settings->checkpoints,
                      "A folder for checkpoints; the newest one there is continued");
  command
      ->add_option("--every-seconds",
                   settings->everySeconds,
                   "Seconds between checkpoints; 0: only by steps")
      ->transform(realNumber(0.0))
      ->needs("--checkpoint");
  command->add_option("--every", settings->every, "Steps between checkpoints")
      ->transform(wholeNumber<std::int64_t>(1))
      ->needs("--checkpoint")
      ->capture_default_str();
  command->add_option("-o,--output",
                      settings->output,
                      "The trained model as *.onnx, or its weights as *.safetensors");
  command->callback([&action, settings, command] {
    if (command->count("--lr") > 0) {
      settings->givenRate = settings->learningRate;
    }
    action = [settings] { return train(*settings); };
  });
}

}  // namespace sluice::cli
