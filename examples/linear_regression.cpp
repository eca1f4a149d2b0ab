// Fits y = 2x + 1 from noisy points: the smallest complete Sluice program.
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/command_line.h"
#include "sluice/sluice.h"

using namespace sluice;

struct Line : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1};
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) { return nn::mseLoss(fc(x), y); }
};

int run(const std::string& device) {
  HostTensor x(DType::F32, Shape{64, 1});
  HostTensor y(DType::F32, Shape{64, 1});
  for (std::int64_t i = 0; i < 64; ++i) {
    const double t = static_cast<double>(i) / 32 - 1;
    x.set(i, t);
    y.set(i, 2 * t + 1 + 0.01 * static_cast<double>(i % 5 - 2));
  }
  Line line;
  auto model = trainingModel(line, Options().device(device), optim::SGD(0.3));
  HostTensor loss;
  for (int step = 0; step < 100; ++step) {
    loss = model(x, y);
  }
  cli::requireFiniteLoss(loss.at(0), model.updates());
  fmt::print("loss {:.6f}, slope {:.3f}, intercept {:.3f}\n",
             loss.at(0),
             line.find("fc.weight")->value().at(0),
             line.find("fc.bias")->value().at(0));
  return 0;
}

int main(int argc, char** argv) {
  CLI::App app("Fits y = 2x + 1 from noisy points: the smallest complete Sluice program.",
               "linear_regression");
  app.footer(
      "Example:\n  SLUICE_DUMP=out linear_regression   # writes what every compile stage made");
  std::string device;
  cli::addDeviceOption(app, device);
  cli::addProfileOptions(app);
  return cli::runProgram(app, argc, argv, [&] { return run(device); });
}
