// A loop of ten iterations over two vectors of ones, with an infeed and an outfeed: the smallest
// program of the TensorFlow port.
#include <algorithm>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/command_line.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

void print(const char* name, const HostTensor& tensor) {
  double low = tensor.at(0);
  double high = tensor.at(0);
  for (std::int64_t i = 1; i < tensor.shape().elements(); ++i) {
    low = std::min(low, tensor.at(i));
    high = std::max(high, tensor.at(i));
  }
  fmt::print("{}: {}, from {:.1f} to {:.1f}\n", name, tensor.shape().str(), low, high);
}

int runLoop(const std::string& device) {
  const HostTensor ones = HostTensor::full({DType::F32, Shape{1, 800}}, 1);
  data::InfeedQueue infeed(data::repeat(data::iterate(data::tensorDataset({ones, ones}))));
  data::OutfeedQueue outfeed;
  const auto body = [&](const Tensors& in) {
    enqueue(outfeed, {{"d1", in[0] + in[1]}, {"d2", in[0] - in[1]}});
    return Tensors{};
  };
  auto run = compile(Options().device(device),
                     [&](const Tensors&) { return repeat(10, body, {}, &infeed); });
  run();
  for (const auto& [name, tensor] : outfeed.dequeueNamed()) {
    print(name.c_str(), tensor);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Runs a loop of ten iterations on the device that reads an infeed and fills an outfeed.",
      "repeat_loop");
  app.footer("Example:\n  repeat_loop");
  std::string device;
  cli::addDeviceOption(app, device);
  cli::addProfileOptions(app);
  return cli::runProgram(app, argc, argv, [&] { return runLoop(device); });
}
