// How long it takes to load an executable, with and without the values of its model, against
// compiling the same model. Prints a line for each model: milliseconds, the best of several times.
//
//   bench_executable [times]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "examples/char_gpt.h"
#include "sluice/api/executable_file.h"
#include "sluice/devices/registry.h"
#include "sluice/program/loaded.h"
#include "sluice/sluice.h"
#include "tests/support/networks.h"
#include "tests/support/random_tensor.h"
#include "tests/support/temp_folder.h"

namespace {

using namespace sluice;

double bestOf(int times, const std::function<double()>& measure) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    best = std::min(best, measure());
  }
  return best;
}

double milliseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

template <class Make>
void measure(const std::string& name,
             const Make& makeNet,
             const std::vector<HostTensor>& step,
             int times) {
  const testing::TempFolder folder;
  const auto file = folder / "net.slx";
  const auto bare = folder / "bare.slx";
  double compiling = 0;
  {
    const auto net = makeNet();
    auto model = trainingModel(*net, Options(), optim::AdamW(1e-3));
    compiling = milliseconds([&] { model.compile(step); });
    model.save(file);
    model.save(bare, {.exportModel = false});
  }
  const double whole = bestOf(times, [&] { return milliseconds([&] { load(file); }); });
  const std::unique_ptr<device::Device> device = devices::makeDevice({});
  const std::vector<program::Target> targets = {program::targetOf(*device)};
  const double programs = bestOf(times, [&] {
    return milliseconds([&] {
      const ExecutableFile read(bare);
      const compiler::Compiled& compiled = read.content().programs[0].compiled;
      program::requireSound(compiled.program, compiled.state, 1);
      if (const std::string other = program::otherChoice(compiled.program, targets);
          !other.empty()) {
        throw std::runtime_error(other);
      }
    });
  });
  // A model of the module takes its programs from the file and is then ready for its first call.
  const double ready = bestOf(times, [&] {
    const auto net = makeNet();
    auto model = trainingModel(*net, Options(), optim::AdamW(1e-3));
    return milliseconds([&] { model.loadExecutable(bare); });
  });
  fmt::print(
      "{:<12} compile {:8.2f}  load {:8.2f} ({} bytes)  loadExecutable without values {:8.2f}, of "
      "which reading and checking {:8.2f} ({} bytes)\n",
      name,
      compiling,
      whole,
      std::filesystem::file_size(file),
      ready,
      programs,
      std::filesystem::file_size(bare));
}

}  // namespace

int main(int argc, char** argv) {
  const int times = argc > 1 ? std::max(1, std::atoi(argv[1])) : 10;
  measure(
      "mnist",
      [] { return std::make_unique<testing::MnistNetwork>(); },
      {testing::randomTensor(1, {DType::F32, {40, 1, 28, 28}}, -1, 1),
       testing::randomTensor(2, {DType::I64, {40}}, 0, 10)},
      times);
  constexpr std::pair<std::string_view, examples::GptShape> kShapes[] = {
      {"2 x 64", {.width = 64, .layers = 2}}, {"6 x 384", {.width = 384, .layers = 6}}};
  for (const auto& [name, shape] : kShapes) {
    const TensorType ids{DType::I64, {shape.batchSize, shape.context}};
    const auto vocabulary = static_cast<double>(shape.vocabulary);
    measure(
        fmt::format("gpt {}", name),
        [&shape = shape] { return std::make_unique<examples::Gpt>(shape); },
        {testing::randomTensor(1, ids, 0, vocabulary),
         testing::randomTensor(2, ids, 0, vocabulary)},
        times);
  }
  return 0;
}
