// VirtualTime: the clock of a session whose devices are simulated. Steps follow each other on it,
// so that the trace of several steps looks like that of a real run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/device/cost_model.h"
#include "sluice/runtime/engine.h"
#include "sluice/runtime/sim_bound.h"
#include "sluice/runtime/simulator.h"

namespace sluice {

class VirtualTime {
 public:
  /// Null unless the time of all these devices is modelled. They must outlive it.
  static std::unique_ptr<VirtualTime> of(const std::vector<const device::Device*>& devices);
  /// That of a target, for programs that were compiled for other devices. Throws as sim devices do.
  static std::unique_ptr<VirtualTime> on(const std::string& target);

  const std::string& target() const { return target_; }
  std::int64_t ticksPerSecond() const { return models_[0]->ticksPerSecond(); }

  /// Cores that all devices share; 0: each device computes by itself.
  std::int32_t cores() const { return models_[0]->machine().cores; }

  /// A step of any program, as the first one after it was loaded.
  runtime::SimRun run(const program::Program& program,
                      std::int32_t rounds,
                      std::int32_t replicas) const;
  /// Its length.
  double seconds(const program::Program& program, std::int32_t rounds, std::int32_t replicas) const;
  /// What no plan of its model can do without.
  runtime::SimBound bound(const program::Program& program) const {
    return runtime::boundOf(program, models_);
  }
  /// Appends the times of the next step in nanoseconds, if `times` is not null; returns its ticks.
  std::int64_t step(const std::shared_ptr<runtime::LoadedProgram>& program,
                    std::int32_t rounds,
                    std::int32_t replicas,
                    std::vector<runtime::TaskTime>* times);

 private:
  explicit VirtualTime(std::vector<const device::CostModel*> models);

  std::shared_ptr<const device::Device> own_;     // null: others own the devices
  std::vector<const device::CostModel*> models_;  // by device, the last for all others
  std::string target_;
  std::int64_t now_ = 0;  // in nanoseconds
  // The step before; another step of the same kind takes the same time.
  std::weak_ptr<const runtime::LoadedProgram> program_;
  runtime::SimOptions options_;
  runtime::SimRun run_;
};

}  // namespace sluice
