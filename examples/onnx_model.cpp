// Any ONNX model with float inputs and outputs: read it, cut it over devices by cost, train it
// towards random targets as a pipeline, and write it again with its new weights.
//
//   onnx_model model.onnx --dim N=4 --devices 2 --output trained.onnx
#include <random>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "sluice/base/atomic_file.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

struct Settings {
  std::string model;
  std::string output;
  std::vector<std::string> dims;
  std::int64_t devices = 1;
  int steps = 20;
  double learningRate = 0.01;
};

constexpr std::int64_t kMicroBatches = 4;

/// Numbers for all micro-batches of a step.
HostTensor randomNumbers(const TensorType& type, std::mt19937& random) {
  std::vector<std::int64_t> dims = type.shape.dims();
  dims.at(0) *= kMicroBatches;
  HostTensor tensor(type.dtype, Shape(std::move(dims)));
  std::uniform_real_distribution<double> numbers(-1, 1);
  for (std::int64_t i = 0; i < tensor.shape().elements(); ++i) {
    tensor.set(i, isFloat(type.dtype) ? numbers(random) : 0);
  }
  return tensor;
}

void run(const Settings& settings) {
  onnx::ImportOptions import;
  for (const std::string& dim : settings.dims) {
    const std::size_t equals = dim.find('=');
    import.dims[dim.substr(0, equals)] = std::stoll(dim.substr(equals + 1));
  }
  Builder builder(onnx::importModel(settings.model, import));
  const TensorId y = builder.graph().outputs()[0].name;
  const TensorType type{builder.getTensorDtype(y), builder.getTensorShape(y)};
  const TensorId target = builder.addInputTensor(type, "target");
  const TensorId error = builder.aiOnnx().sub(y, target);
  const TensorId loss = builder.aiGraphcore().identityloss(builder.aiOnnx().mul(error, error));

  Options options;
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
  for (int step = 0; step < settings.steps; ++step) {
    model.run(inputs);
    if (step == 0 || step + 1 == settings.steps) {
      fmt::print("step {:3} loss {:.9g}\n", step, model.getAnchoredTensor("loss").at(0));
    }
  }
  fmt::print("{}", model.explain());
  if (!settings.output.empty()) {
    writeFileAtomically(settings.output, builder.getModelProto());
    fmt::print("wrote {}\n", settings.output);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains an ONNX model over several devices and writes it again.");
  Settings settings;
  app.add_option("model", settings.model, "An ONNX file")->required();
  app.add_option("--dim", settings.dims, "A value for a symbolic dimension, N=4")
      ->check(CLI::Validator(
          [](std::string& text) {
            const bool good = text.find('=') != std::string::npos && text.back() != '=';
            const std::size_t end = text.find_last_not_of("0123456789");
            return good && text[end] == '=' ? "" : "expected NAME=NUMBER, got " + text;
          },
          "NAME=NUMBER"));
  app.add_option("--devices", settings.devices, "Devices to cut the model over")
      ->check(CLI::Range(1, 64));
  app.add_option("--steps", settings.steps, "Weight updates")->check(CLI::Range(1, 1'000'000));
  app.add_option("--learning-rate", settings.learningRate, "Of AdamW");
  app.add_option("--output", settings.output, "Write the trained model to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  } catch (...) {
    fmt::print(stderr, "error: an exception of an unknown type\n");
    return 1;
  }
  return 0;
}
