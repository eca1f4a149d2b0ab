#include "sluice/api/session.h"

#include <filesystem>
#include <fstream>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/program/lower.h"
#include "sluice/program/verify.h"
#include "sluice/transforms/pipeline.h"

namespace sluice {

Session::Session(const Options& options, std::uint64_t seed) : seed_(seed) {
  devices_.push_back(devices::cpu::makeCpuDevice(
      {.threads = options.threads(), .memoryBytes = options.memoryPerDevice()}));
  std::vector<device::Device*> pointers;
  for (const auto& device : devices_) {
    pointers.push_back(device.get());
  }
  state_ = std::make_unique<runtime::ModelState>(std::move(pointers), seed);
  engine_ = std::make_unique<runtime::Engine>(*state_);
}

Session::~Session() = default;

void Session::requireSameDevices(const Options& options) const {
  const device::DeviceInfo& info = devices_[0]->info();
  if (info.threads != options.threads() || info.memoryBytes != options.memoryPerDevice()) {
    raise<InvalidArgument>(
        "the module already has a model on devices of {} threads and {} bytes; this one asks for "
        "{} threads and {} bytes: use the same threads and memoryPerDevice for both",
        info.threads,
        info.memoryBytes,
        options.threads(),
        options.memoryPerDevice());
  }
}

std::unique_ptr<runtime::LoadedProgram> Session::compile(ir::Graph graph,
                                                         std::int32_t microBatches,
                                                         program::DrainRule drainRule,
                                                         const Options& options) {
  const device::KernelTable& kernels = devices_[0]->kernels();
  transforms::TransformOptions passes;
  passes.fusion = options.fusion();
  passes.dumpDirectory = options.dumpDirectory();
  transforms::runPasses(graph, passes);
  program::StatePlan plan = state_->plan();
  program::Program lowered = program::lower(graph,
                                            kernels,
                                            plan,
                                            {.microBatchesPerRound = microBatches,
                                             .drainRule = drainRule,
                                             .memoryPerDevice = options.memoryPerDevice()});
  if (options.verifyPrograms()) {
    program::verify(lowered);
  }
  if (!options.dumpDirectory().empty()) {
    std::ofstream(std::filesystem::path(options.dumpDirectory()) / "program.txt")
        << program::print(lowered);
  }
  std::unique_ptr<runtime::LoadedProgram> loaded = engine_->load(std::move(lowered));
  state_->adopt(std::move(plan));
  return loaded;
}

}  // namespace sluice
