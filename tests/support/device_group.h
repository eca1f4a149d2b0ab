// Several devices of one kind with an engine, for tests of programs over more than one device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sluice/devices/registry.h"
#include "tests/support/machine.h"
#include "tests/support/small_models.h"
#include "tests/support/staged_models.h"

namespace sluice::testing {

inline constexpr std::uint64_t kGroupSeed = 5;

/// Several devices with one engine.
class DeviceGroup {
 public:
  explicit DeviceGroup(std::size_t count,
                       const runtime::EngineOptions& options = {},
                       const std::string& kind = "cpu")
      : DeviceGroup(madeOf(count, kind), options) {}
  explicit DeviceGroup(std::vector<std::unique_ptr<device::Device>> made,
                       const runtime::EngineOptions& options = {})
      : devices(std::move(made)) {
    std::vector<device::Device*> all;
    for (const std::unique_ptr<device::Device>& device : devices) {
      all.push_back(device.get());
    }
    state = std::make_unique<runtime::ModelState>(all, kGroupSeed);
    engine = std::make_unique<runtime::Engine>(*state, options);
  }

  Chain lower(const ir::Graph& graph, const ChainRun& run) const {
    return lowerChain(graph, run, {program::targetOf(*devices[0])});
  }
  std::unique_ptr<runtime::LoadedProgram> load(const Chain& chain) {
    state->adopt(chain.state);
    return engine->load(chain.program);
  }

  MapSink step(runtime::LoadedProgram& loaded,
               std::vector<ops::TensorMap> inputs,
               const runtime::Peers* peers = nullptr) {
    const auto perRound = static_cast<std::size_t>(loaded.program().microBatchesPerRound);
    const auto rounds = static_cast<std::int32_t>(inputs.size() / perRound);
    MapFeed feed(loaded.program(), std::move(inputs));
    MapSink sink(loaded.program());
    engine->run(loaded, {.feed = feed, .sink = sink, .rounds = rounds, .peers = peers});
    return sink;
  }

  std::vector<std::unique_ptr<device::Device>> devices;
  std::unique_ptr<runtime::ModelState> state;
  std::unique_ptr<runtime::Engine> engine;

 private:
  static std::vector<std::unique_ptr<device::Device>> madeOf(std::size_t count,
                                                             const std::string& kind) {
    std::vector<std::unique_ptr<device::Device>> made;
    for (std::size_t d = 0; d < count; ++d) {
      made.push_back(devices::makeDevice({.name = {.kind = kind}, .number = static_cast<int>(d)}));
    }
    return made;
  }
};

inline std::vector<ops::TensorMap> inputsOf(const ir::Graph& graph, std::int64_t count) {
  std::vector<ops::TensorMap> inputs;
  for (std::int64_t m = 0; m < count; ++m) {
    inputs.push_back(randomInputs(graph, 3, m));
  }
  return inputs;
}

}  // namespace sluice::testing
