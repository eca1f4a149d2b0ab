// Engine: runs Programs. Each lane of a device has a thread of its own that walks its tasks in
// order, waiting for other lanes' progress counters; in steady state it allocates nothing, looks
// nothing up by name and takes no lock. The first exception of a lane stops all of them and is
// rethrown to the caller; the Engine stays usable.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/program/program.h"
#include "sluice/runtime/host_io.h"
#include "sluice/runtime/model_state.h"

namespace sluice::runtime {

/// A Program with its kernels made; belongs to the Engine that loaded it.
class LoadedProgram {
 public:
  explicit LoadedProgram(program::Program program) : program_(std::move(program)) {}
  const program::Program& program() const { return program_; }

 private:
  friend class Engine;
  program::Program program_;
  std::uint64_t serial_ = 0;  // tells programs of one Engine apart
  std::vector<std::unique_ptr<device::Executable>> segments_;
  std::vector<std::byte*> addresses_;  // of every buffer's slot 0
  std::uint64_t generation_ = 0;       // of the ModelState when the addresses were taken
};

struct StepArgs {
  HostFeed& feed;
  HostSink& sink;
  std::int32_t rounds = 1;
  std::uint64_t seed = 0;
  std::int64_t firstMicroBatch = 0;  ///< counted over the whole training
};

class Engine {
 public:
  /// The state, and with it the devices, must outlive the Engine.
  explicit Engine(ModelState& state);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Makes the kernels. The program's variables must be in the state.
  std::unique_ptr<LoadedProgram> load(program::Program program);

  /// One step: `rounds` rounds of the program. Returns when everything is done, rethrows the first
  /// error of a lane. One caller at a time.
  void run(LoadedProgram& loaded, const StepArgs& args);

 private:
  struct Impl;
  void refreshAddresses(LoadedProgram& loaded);
  void uploadConstants(const LoadedProgram& loaded);

  ModelState& state_;
  std::uint64_t lastSerial_ = 0;
  std::uint64_t currentSerial_ = 0;  // whose constants are in the transient arena
  std::uint64_t currentGeneration_ = 0;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::runtime
