// Any text as a tuning table: refused as a ConfigFileError, or a model is trained with it, which
// may be slower but computes the same.
#include <cmath>

#include "fuzz/small_net.h"
#include "fuzz/target.h"

using namespace sluice;

namespace {

NamedTensors trainedWith(const Options& options) {
  fuzz::TunedNet net;
  auto model = trainingModel(net, options, optim::SGD(0.1));
  model.run(std::vector{fuzz::TunedNet::input()});
  return model.stateDict();
}

bool close(const NamedTensors& a, const NamedTensors& b) {
  constexpr double kTolerance = 1e-4;
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return std::ranges::equal(
        x.second.toDoubles(), y.second.toDoubles(), [](double found, double expected) {
          return std::abs(found - expected) <= kTolerance;
        });
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile file("tuning");
  static const NamedTensors expected = trainedWith(Options().randomSeed(4));
  file.write(fuzz::textOf(data, size));
  NamedTensors found;
  try {
    found = trainedWith(Options().randomSeed(4).tuningTable(file.path()));
  } catch (const ConfigFileError&) {
    return 0;
  }
  fuzz::require(close(found, expected), "other weights than without the table");
  return 0;
}
