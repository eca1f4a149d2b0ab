// Any text as a tuning table: refused as a ConfigFileError, or a model is trained with it, which
// may be slower but computes the same. Tables that lead to the same choices of kernels train once.
#include <cmath>
#include <set>

#include "fuzz/small_net.h"
#include "fuzz/target.h"
#include "sluice/api/compiled_program.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/cpu/kernels/tuning_options.h"

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

/// The kernels of the model that a table has a say in, once each.
const std::vector<device::KernelCall>& calls() {
  static const std::vector<device::KernelCall> kCalls = [] {
    fuzz::TunedNet net;
    auto model = trainingModel(net, Options().randomSeed(4), optim::SGD(0.1));
    model.compile(std::vector{fuzz::TunedNet::input()});
    std::vector<device::KernelCall> all;
    std::set<std::string> keys;
    for (const program::Segment& segment : model.program().segments) {
      for (const device::KernelCall& call : segment.calls) {
        const auto options = devices::cpu::tuningOptions(call.view());
        if (options && keys.insert(options->key).second) {
          all.push_back(call);
        }
      }
    }
    return all;
  }();
  return kCalls;
}

/// What the device chooses for them with a table. Throws ConfigFileError.
std::vector<device::Choice> choicesWith(std::string_view table) {
  const auto device = devices::cpu::makeCpuDevice({.tuning = device::parseTuning(table)});
  std::vector<device::Choice> choices;
  for (const device::KernelCall& call : calls()) {
    choices.push_back(device->kernels().choose(call.view()));
  }
  return choices;
}

}  // namespace

SLUICE_FUZZ_TARGET(tuning) {
  static const fuzz::MemoryFile file("tuning");
  static const NamedTensors expected = trainedWith(Options().randomSeed(4));
  static std::vector<std::vector<device::Choice>> trained;
  NamedTensors found;
  try {
    std::vector<device::Choice> choices = choicesWith(fuzz::textOf(data, size));
    if (std::ranges::find(trained, choices) != trained.end()) {
      return;
    }
    trained.push_back(std::move(choices));
    file.write(fuzz::textOf(data, size));
    found = trainedWith(Options().randomSeed(4).tuningTable(file.path()));
  } catch (const ConfigFileError&) {
    return;
  }
  fuzz::require(close(found, expected), "other weights than without the table");
}
