// One device with an engine, and host I/O from maps of tensors, for tests that run programs. Every
// program is verified before it is loaded. SLUICE_DEVICE names the kind of device; the default is a
// CPU device.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/devices/registry.h"
#include "sluice/ops/interpreter.h"
#include "sluice/program/lower.h"
#include "sluice/program/verify.h"
#include "sluice/runtime/engine.h"

namespace sluice::testing {

/// Inputs by name for each micro-batch of a step.
class MapFeed : public runtime::HostFeed {
 public:
  MapFeed(const program::Program& program, std::vector<ops::TensorMap> inputs)
      : program_(program), inputs_(std::move(inputs)) {}
  const void* take(std::int32_t input, std::int64_t microBatch) override {
    const program::Port& stream = program_.feeds[static_cast<std::size_t>(input)];
    return inputs_.at(static_cast<std::size_t>(microBatch)).at(stream.name).bytes();
  }

 private:
  const program::Program& program_;
  std::vector<ops::TensorMap> inputs_;
};

/// The outputs that were put, by name and micro-batch.
class MapSink : public runtime::HostSink {
 public:
  explicit MapSink(const program::Program& program) : program_(program) {}
  void put(std::int32_t output, std::int64_t microBatch, const void* data) override {
    const program::Port& stream = program_.drains[static_cast<std::size_t>(output)];
    HostTensor value(stream.type);
    std::copy_n(static_cast<const std::byte*>(data), value.byteCount(), value.bytes());
    results[stream.name].emplace_back(microBatch, std::move(value));
  }

  std::map<std::string, std::vector<std::pair<std::int64_t, HostTensor>>> results;

 private:
  const program::Program& program_;
};

/// As those of a model: they never wait, so that workers serve them.
class PromptFeed : public MapFeed {
 public:
  using MapFeed::MapFeed;
  bool mayBlock() const override { return false; }
};
class PromptSink : public MapSink {
 public:
  using MapSink::MapSink;
  bool mayBlock() const override { return false; }
};

inline std::string deviceKind() {
  const char* kind = std::getenv("SLUICE_DEVICE");
  return kind == nullptr ? "cpu" : kind;
}

class Machine {
 public:
  explicit Machine(int threads = 1, std::uint64_t seed = 5)
      : device(devices::makeDevice({.name = {.kind = deviceKind()}, .threads = threads})),
        state({device.get()}, seed),
        engine(state) {}

  std::unique_ptr<runtime::LoadedProgram> load(const ir::Graph& graph,
                                               program::LowerOptions options = {}) {
    program::StatePlan plan = state.plan();
    options.targets = {program::targetOf(*device)};
    program::Program program = program::lower(graph, plan, options);
    program::verify(program);
    state.adopt(std::move(plan));
    return engine.load(std::move(program));
  }

  /// Runs one step over all inputs; it has as many rounds as they fill.
  MapSink step(runtime::LoadedProgram& loaded,
               std::vector<ops::TensorMap> inputs,
               ir::RunInfo first = {}) {
    const auto perRound = static_cast<std::size_t>(loaded.program().microBatchesPerRound);
    const auto rounds = static_cast<std::int32_t>(inputs.size() / perRound);
    MapFeed feed(loaded.program(), std::move(inputs));
    MapSink sink(loaded.program());
    engine.run(loaded,
               {.feed = feed,
                .sink = sink,
                .rounds = rounds,
                .seed = first.seed,
                .firstMicroBatch = first.microBatch});
    return sink;
  }

  std::unique_ptr<device::Device> device;
  runtime::ModelState state;
  runtime::Engine engine;
};

}  // namespace sluice::testing
