#include "sluice/api/virtual_time.h"

#include "sluice/devices/registry.h"
#include "sluice/runtime/sim_costs.h"

namespace sluice {

std::unique_ptr<VirtualTime> VirtualTime::of(const std::vector<const device::Device*>& devices) {
  std::vector<const device::CostModel*> models;
  for (const device::Device* device : devices) {
    models.push_back(device::costModelOf(*device));
    if (models.back() == nullptr) {
      return nullptr;
    }
  }
  return std::unique_ptr<VirtualTime>(new VirtualTime(std::move(models)));
}

std::unique_ptr<VirtualTime> VirtualTime::on(const std::string& target) {
  std::shared_ptr<const device::Device> device =
      devices::makeDevice({.name = devices::parseDevices("sim@" + target).at(0)});
  std::unique_ptr<VirtualTime> time = of({device.get()});
  time->own_ = std::move(device);
  return time;
}

VirtualTime::VirtualTime(std::vector<const device::CostModel*> models)
    : models_(std::move(models)), target_(models_[0]->target()) {}

runtime::SimRun VirtualTime::run(const program::Program& program,
                                 std::int32_t rounds,
                                 std::int32_t replicas) const {
  return runtime::simulate(program,
                           runtime::costsOf(program, models_, replicas),
                           {.rounds = rounds, .replicas = replicas});
}

double VirtualTime::seconds(const program::Program& program,
                            std::int32_t rounds,
                            std::int32_t replicas) const {
  return runtime::simulate(program,
                           runtime::costsOf(program, models_, replicas),
                           {.rounds = rounds, .replicas = replicas, .keepsTimes = false})
      .seconds();
}

std::int64_t VirtualTime::step(const std::shared_ptr<runtime::LoadedProgram>& program,
                               std::int32_t rounds,
                               std::int32_t replicas,
                               std::vector<runtime::TaskTime>* times) {
  const bool again = program_.lock() == program;
  const runtime::SimOptions options{.rounds = rounds, .replicas = replicas, .hasPacked = again};
  if (!again || options_.rounds != rounds || options_.replicas != replicas ||
      options_.hasPacked != options.hasPacked) {
    run_ = runtime::simulate(
        program->program(), runtime::costsOf(program->program(), models_, replicas), options);
    program_ = program;
    options_ = options;
  }
  std::int64_t end = now_;
  for (runtime::TaskTime time : run_.nanoseconds()) {
    time.start += now_;
    time.end += now_;
    end = std::max(end, time.end);
    if (times != nullptr) {
      times->push_back(time);
    }
  }
  now_ = end;
  return run_.end;
}

}  // namespace sluice
