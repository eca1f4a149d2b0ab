// Any ONNX model with float inputs and outputs: read it, cut it over devices by cost, train it
// towards random targets as a pipeline, and write it again with its new weights.
#include <random>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/command_line.h"
#include "sluice/base/atomic_file.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

struct Settings {
  std::string device;
  std::string model;
  std::string output;
  std::vector<std::string> dims;
  std::int64_t devices = 1;
  std::int64_t steps = 20;
  double learningRate = 0.01;
};

constexpr std::int64_t kMicroBatches = 4;
constexpr std::int64_t kMostElements = std::int64_t{1} << 28;  // of an input

/// Numbers for all micro-batches of a step.
HostTensor randomNumbers(const TensorType& type, std::mt19937& random) {
  std::vector<std::int64_t> dims = type.shape.dims();
  if (dims.empty()) {
    raise<InvalidArgument>("an input of the model is a scalar; this example needs rows of samples");
  }
  if (dims[0] > kMostElements || type.shape.elements() > kMostElements / kMicroBatches) {
    raise<InvalidArgument>(
        "an input of the model has {} per micro-batch; {} micro-batches of it are "
        "limited to {} elements",
        type.str(),
        kMicroBatches,
        kMostElements);
  }
  dims[0] *= kMicroBatches;
  HostTensor tensor(type.dtype, Shape(std::move(dims)));
  std::uniform_real_distribution<double> numbers(-1, 1);
  for (std::int64_t i = 0; i < tensor.shape().elements(); ++i) {
    tensor.set(i, isFloat(type.dtype) ? numbers(random) : 0);
  }
  return tensor;
}

/// Returns the signal that ended it early, or 0.
int train(Model& model, const std::vector<HostTensor>& inputs, std::int64_t steps) {
  const StopSignals stop;
  for (std::int64_t step = 0; step < steps && stop.seen() == 0; ++step) {
    model.run(inputs);
    const double loss = model.getAnchoredTensor("loss").at(0);
    cli::requireFiniteLoss(loss, model.updates());
    if (step == 0 || step + 1 == steps) {
      fmt::print("step {:3} loss {:.9g}\n", step, loss);
    }
  }
  return stop.seen();
}

int run(const Settings& settings) {
  if (!settings.output.empty()) {
    static_cast<void>(outputTarget(settings.output));  // before the work, not after it
  }
  onnx::ImportOptions import;
  import.dims = cli::readDims(settings.dims);
  Builder builder(onnx::importModel(settings.model, import));
  const TensorId y = builder.graph().outputs()[0].name;
  const TensorType type{builder.getTensorDtype(y), builder.getTensorShape(y)};
  const TensorId target = builder.addInputTensor(type, "target");
  const TensorId error = builder.aiOnnx().sub(y, target);
  const TensorId loss = builder.aiGraphcore().identityloss(builder.aiOnnx().mul(error, error));

  Options options;
  options.device(settings.device);
  options.training.gradientAccumulation(kMicroBatches);
  if (settings.devices > 1) {
    options.virtualGraphMode(VirtualGraphMode::Auto)
        .devicesPerReplica(settings.devices)
        .enablePipelining(true);
  }
  options.anchorTensor("loss", loss, OutputMode::Final);
  auto model = trainingModel(builder, loss, options, optim::AdamW(settings.learningRate));
  std::mt19937 random(1);
  std::vector<HostTensor> inputs;
  for (const ir::OpId id : builder.graph().inputs()) {
    inputs.push_back(randomNumbers(builder.graph().op(id).outputs[0], random));
  }
  if (const int signal = train(model, inputs, settings.steps); signal != 0) {
    fmt::print("Interrupted after {} updates; nothing is written.\n", model.updates());
    return cli::exitCodeOf(signal);
  }
  fmt::print("{}", model.explain());
  if (!settings.output.empty()) {
    writeFileAtomically(settings.output, builder.getModelProto());
    fmt::print("wrote {}\n", settings.output);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains an ONNX model over several devices towards random targets and writes it again.",
      "onnx_model");
  app.footer("Example:\n  onnx_model model.onnx --dim N=4 --devices 2 --output trained.onnx");
  Settings settings;
  app.add_option("model", settings.model, "An ONNX file")->required();
  app.add_option("--dim", settings.dims, "A value for a symbolic dimension, N=4");
  cli::addDeviceOption(app, settings.device);
  cli::addProfileOptions(app);
  app.add_option("--devices", settings.devices, "Devices to cut the model over, all of them used")
      ->transform(cli::wholeNumber<std::int64_t>(1, 64))
      ->capture_default_str();
  app.add_option("--steps", settings.steps, "Weight updates")
      ->transform(cli::wholeNumber<std::int64_t>(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--learning-rate", settings.learningRate, "Of AdamW")
      ->transform(cli::realNumber(0))
      ->capture_default_str();
  app.add_option("--output", settings.output, "Write the trained model to this file");
  return cli::runProgram(app, argc, argv, [&] { return run(settings); });
}
