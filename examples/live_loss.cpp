// Trains a line in one call of 100 iterations; a thread of the host prints the loss of each while
// the training runs.
#include <exception>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/command_line.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

constexpr std::int64_t kSteps = 100;

struct Line : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1};
};

/// Points of y = 2x + 1.
data::IterablePtr points() {
  HostTensor x(DType::F32, Shape{64, 1});
  HostTensor y(DType::F32, Shape{64, 1});
  for (std::int64_t i = 0; i < 64; ++i) {
    const double t = static_cast<double>(i * 37 % 64) / 32 - 1;
    x.set(i, t);
    y.set(i, 2 * t + 1);
  }
  return data::batch(data::repeat(data::iterate(data::tensorDataset({x, y}))), 16);
}

/// Returns the last one.
double printLosses(data::OutfeedQueue& losses) {
  double last = 0;
  for (std::int64_t step = 0; step < kSteps && losses.await();) {
    const HostTensor arrived = losses.dequeue()[0];
    for (std::int64_t i = 0; i < arrived.shape()[0]; ++i) {
      last = arrived.at(i);
      fmt::print("step {} loss {:.6f}\n", ++step, last);
    }
  }
  return last;
}

int run(const std::string& device) {
  Line line;
  data::InfeedQueue infeed(points());
  data::OutfeedQueue losses;
  const auto body = [&](const Tensors& in) {
    const nn::Tensor loss = nn::mseLoss(line.fc(in[0]), in[1]);
    enqueue(losses, loss);
    minimize(optim::SGD(0.2), loss);
    return Tensors{};
  };
  auto train = compile(line, Options().device(device), [&](const Tensors&) {
    return repeat(kSteps, body, {}, &infeed);
  });
  double last = 0;
  std::thread reader([&] { last = printLosses(losses); });
  std::exception_ptr failure;
  try {
    train();
  } catch (...) {
    failure = std::current_exception();
  }
  losses.close();  // nothing more comes, even if the training failed
  reader.join();
  if (failure) {
    std::rethrow_exception(failure);
  }
  cli::requireFiniteLoss(last, kSteps);
  fmt::print("slope {:.3f}, intercept {:.3f}\n",
             line.find("fc.weight")->value().at(0),
             line.find("fc.bias")->value().at(0));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a line in one call of 100 iterations; a thread of the host prints the loss of each "
      "while the training runs.",
      "live_loss");
  app.footer("Example:\n  live_loss | tail -3");
  std::string device;
  cli::addDeviceOption(app, device);
  cli::addProfileOptions(app);
  return cli::runProgram(app, argc, argv, [&] { return run(device); });
}
