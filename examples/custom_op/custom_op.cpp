// Trains a model with an op of a library of its own, on one device and as a pipeline over two.
#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/command_line.h"
#include "sluice/sluice.h"

using namespace sluice;

struct Curve : nn::Module {
  nn::Linear fc1{*this, "fc1", 1, 16};
  nn::Linear fc2{*this, "fc2", 16, 1};

  nn::Tensor forward(nn::Tensor x, const nn::Tensor& y) {
    {
      const nn::Block block("hidden");
      x = nn::customOp({fc1(x)},
                       {.name = "Swish",
                        .domain = "com.example",
                        .version = 1,
                        .attributes = {{"beta", 1.5}}})[0];
    }
    const nn::Block block("output");
    return nn::mseLoss(fc2(x), y);
  }
};

/// The loss after 400 updates towards y = x^2.
double train(const Strategy& strategy, const std::string& device) {
  HostTensor x(DType::F32, Shape{64, 1});
  HostTensor y(DType::F32, Shape{64, 1});
  for (std::int64_t i = 0; i < 64; ++i) {
    const double t = static_cast<double>(i) / 32 - 1;
    x.set(i, t);
    y.set(i, t * t);
  }
  Options options;
  options.device(device);
  options.training.gradientAccumulation(4);
  options.setExecutionStrategy(strategy);
  Curve net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  HostTensor loss;
  for (int step = 0; step < 400; ++step) {
    loss = model(x, y);
  }
  cli::requireFiniteLoss(loss.at(0), model.updates());
  return loss.at(0);
}

int run(const std::string& library, const std::string& device) {
  for (const std::string& name : loadCustomOps(library)) {
    fmt::print("loaded {}\n", name);
  }
  const double one = train(PipelinedExecution({Stage("hidden", "output")}), device);
  const double two = train(PipelinedExecution("hidden", "output"), device);
  fmt::print("one device: loss {:.9g}\ntwo devices: loss {:.9g}\n", one, two);
  return one == two ? 0 : cli::kFailed;
}

int main(int argc, char** argv) {
  std::string library = std::filesystem::path(argv[0]).replace_filename("swish_ops.so").string();
  CLI::App app(
      "Trains a model with an op of a library of its own, on one device and as a pipeline over "
      "two; "
      "both end with the same bits.",
      "custom_op");
  app.footer("Example:\n  custom_op build/bin/swish_ops.so");
  app.add_option("library", library, "The shared library with the op")->capture_default_str();
  std::string device;
  cli::addDeviceOption(app, device);
  cli::addProfileOptions(app);
  return cli::runProgram(app, argc, argv, [&] { return run(library, device); });
}
