#include "sluice/api/session.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/program/lower.h"
#include "sluice/program/verify.h"
#include "sluice/transforms/pipeline.h"

namespace sluice {

namespace {

device::Tuning readTuning(const std::string& path) {
  if (path.empty()) {
    return {};
  }
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    raise<ConfigFileError>("cannot read the tuning table '{}'", path);
  }
  try {
    return device::parseTuning(text.view());
  } catch (Error& error) {
    error.at(path);
    throw;
  }
}

/// Where dumps go: the option, else a folder per program below SLUICE_DUMP, else nowhere.
std::string dumpFolder(const Options& options, const std::string& program) {
  if (!options.dumpDirectory().empty()) {
    return options.dumpDirectory();
  }
  const char* fromEnvironment = std::getenv("SLUICE_DUMP");
  if (fromEnvironment == nullptr || *fromEnvironment == '\0') {
    return {};
  }
  log::info("session", "SLUICE_DUMP is set: writing graphs to {}/{}", fromEnvironment, program);
  return (std::filesystem::path(fromEnvironment) / program).string();
}

void writeDump(const std::string& folder, const program::Program& lowered) {
  const std::filesystem::path path = std::filesystem::path(folder) / "program.txt";
  std::ofstream file(path);
  file << program::print(lowered);
  if (!file.flush()) {
    raise<FileError>("cannot write '{}'", path.string());
  }
}

}  // namespace

Session::Session(const Options& options, std::uint64_t seed)
    : seed_(seed), tuningTable_(options.tuningTable()) {
  devices_.push_back(devices::cpu::makeCpuDevice({.threads = options.threads(),
                                                  .memoryBytes = options.memoryPerDevice(),
                                                  .tuning = readTuning(options.tuningTable())}));
  std::vector<device::Device*> pointers;
  for (const auto& device : devices_) {
    pointers.push_back(device.get());
  }
  state_ = std::make_unique<runtime::ModelState>(std::move(pointers), seed);
  engine_ = std::make_unique<runtime::Engine>(*state_);
  options.freeze();
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
  if (options.tuningTable() != tuningTable_) {
    raise<InvalidArgument>(
        "the module already has a model with tuningTable '{}'; this one asks for '{}'",
        tuningTable_,
        options.tuningTable());
  }
  if (options.randomSeed().value_or(seed_) != seed_) {
    raise<InvalidArgument>(
        "the module already has a model with randomSeed {}; this one asks for {}",
        seed_,
        *options.randomSeed());
  }
}

void Session::write(std::string_view variable, const HostTensor& value) {
  state_->write(variable, value);
  if (const auto known = filled_.find(variable); known != filled_.end()) {
    filled_.erase(known);
  }
}

void Session::fill(const std::string& variable, double value) {
  if (const auto known = filled_.find(variable); known != filled_.end() && known->second == value) {
    return;
  }
  const program::PlacedVariable* placed = state_->plan().find(variable);
  if (placed == nullptr) {
    raise<InvalidArgument>("the model has no variable '{}'", variable);
  }
  state_->write(variable, HostTensor::full(placed->variable.type, value));
  filled_[variable] = value;
}

void Session::requireRoom(const program::Program& lowered) const {
  const std::size_t budget = devices_[0]->info().memoryBytes;
  const program::DevicePlan& plan = lowered.devices[0];
  const std::size_t transient = std::max(plan.transientBytes, largestTransient_);
  if (budget != 0 && plan.stateBytes + transient > budget) {
    raise<OutOfMemory>(
        "program '{}' brings the state of the model to {} bytes, and its largest program has {} "
        "bytes of activations and scratch: {} in all, the device has {}",
        lowered.name,
        plan.stateBytes,
        transient,
        plan.stateBytes + transient,
        budget);
  }
}

std::unique_ptr<runtime::LoadedProgram> Session::compile(ir::Graph graph,
                                                         std::int32_t microBatches,
                                                         program::DrainRule drainRule,
                                                         const Options& options) {
  const device::KernelTable& kernels = devices_[0]->kernels();
  transforms::TransformOptions passes;
  passes.fusion = options.fusion();
  passes.dumpDirectory = dumpFolder(options, graph.name());
  transforms::runPasses(graph, passes);
  program::StatePlan plan = state_->plan();
  // A second slot pays off as soon as another micro-batch follows, in this round or the next.
  const bool several = microBatches > 1 || options.deviceIterations() > 1;
  program::Program lowered = program::lower(graph,
                                            kernels,
                                            plan,
                                            {.microBatchesPerRound = microBatches,
                                             .feedSlots = several ? 2 : 1,
                                             .drainSlots = several ? 2 : 1,
                                             .drainRule = drainRule,
                                             .memoryPerDevice = options.memoryPerDevice()});
  requireRoom(lowered);
  if (options.verifyPrograms()) {
    program::verify(lowered);
  }
  if (!passes.dumpDirectory.empty()) {
    writeDump(passes.dumpDirectory, lowered);
  }
  std::unique_ptr<runtime::LoadedProgram> loaded = engine_->load(std::move(lowered));
  state_->adopt(std::move(plan));
  largestTransient_ = std::max(largestTransient_, loaded->program().devices[0].transientBytes);
  return loaded;
}

}  // namespace sluice
