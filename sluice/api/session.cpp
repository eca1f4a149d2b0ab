#include "sluice/api/session.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/api/chosen_devices.h"
#include "sluice/api/compile_progress.h"
#include "sluice/api/executable_cache.h"
#include "sluice/api/processes.h"
#include "sluice/api/virtual_time.h"
#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/base/input_file.h"
#include "sluice/base/log.h"
#include "sluice/base/version.h"
#include "sluice/compile/compile.h"
#include "sluice/data/queues.h"
#include "sluice/program/loaded.h"

namespace sluice {

namespace {

device::Tuning readTuning(const std::string& path) {
  if (path.empty()) {
    return {};
  }
  std::string text;
  try {
    text = readFile(path, kTextFileLimit);
  } catch (const Error& error) {
    raise<ConfigFileError>("cannot read the tuning table '{}': {}", path, error.message());
  }
  try {
    device::Tuning tuning = device::parseTuning(text);
    if (tuning.empty() && text.find('#') == std::string::npos) {  // `tune` may only have a comment
      raise<ConfigFileError>("the tuning table has no line 'key value'; `sluice tune` makes one");
    }
    return tuning;
  } catch (Error& error) {
    error.at(path);
    throw;
  }
}

}  // namespace

Session::Session(const Options& options, std::uint64_t seed)
    : seed_(seed),
      processes_(Processes::of(options)),
      tuningTable_(options.tuningTable()),
      pool_(chosenDevices(options),
            options.device().deviceIds,
            {.threads = options.threads(),
             .memoryBytes = options.memoryPerDevice(),
             .tuning = readTuning(options.tuningTable()),
             .codeCache = codeCache(options)}) {
  if (options.device().names.empty() && !options.device().ipuModel &&
      pool_.list() != devices::parseDevices("cpu")) {
    log::info("session", "the environment says so: running on {}", pool_.list().str());
  }
  broadcastBuffers_ = options.state().broadcastBuffers;
  stallTimeout_ = options.device().stallTimeout;
  replicas_.emplace_back();
  remotePath_ = options.device().remotePath;
  remoteBytes_ = options.device().remoteBytes;
  remoteBandwidth_ = options.device().remoteBandwidth;
  replicas_[0].state =
      std::make_unique<runtime::ModelState>(std::vector<device::Device*>(), seed, remoteFile(0));
  const std::chrono::milliseconds stall(static_cast<std::int64_t>(1e3 * stallTimeout_));
  runtime::EngineOptions engine{.stallTimeout = stall, .remoteBandwidth = remoteBandwidth_};
  if (stall.count() > 0) {
    engine.stopGrace = std::min(engine.stopGrace, stall);
  }
  engine_ = std::make_unique<runtime::Engine>(*replicas_[0].state, engine);
  makeDevices(1);
  virtual_ = VirtualTime::of(pool_.samples(device()));
  if (processes_ != nullptr) {
    processes_->requireKinds(pool_.samples(device()));
    processes_->lookBy([this] { lookAround(); });
  }
  turn_->onCancel([this] {
    engine_->stop(std::make_exception_ptr(Cancelled("the call was cancelled")));
    const std::scoped_lock lock(mutex_);
    if (awaited_ != nullptr) {
      awaited_->interrupt();
    }
  });
  options.freeze();
}

void Session::makeDevices(std::size_t count) {
  for (Replica& replica : replicas_) {
    while (replica.devices.size() < count) {
      replica.devices.push_back(pool_.make(replica.devices.size()));
      replica.state->addDevice(replica.devices.back().get());
    }
  }
  largestTransient_.resize(numDevices());
  engine_->growWorkers();
}

/// Every replica of every process has files of its own.
std::string Session::remoteFile(std::size_t replica) const {
  if (remotePath_.empty()) {
    return "";
  }
  return remotePath_ + (processes_ != nullptr ? fmt::format(".rank{}", processes_->rank()) : "") +
         (replica > 0 ? fmt::format(".replica{}", replica) : "");
}

/// New replicas start from what the first one holds.
void Session::makeReplicas(std::size_t count) {
  const std::size_t before = replicas_.size();
  while (replicas_.size() < count) {
    const std::string path = remoteFile(replicas_.size());
    replicas_.emplace_back();
    replicas_.back().state =
        std::make_unique<runtime::ModelState>(std::vector<device::Device*>(), seed_, path);
  }
  makeDevices(numDevices());
  for (std::size_t r = before; r < count; ++r) {
    runtime::ModelState& made = *replicas_[r].state;
    made.adopt(state().plan());
    for (const program::PlacedVariable& placed : state().plan().variables()) {
      made.write(placed.variable.name, state().read(placed.variable.name));
    }
    engine_->addReplica(made);
  }
}

bool Session::hasModels() {
  endLeavers();
  return models_ > 0;
}

void Session::join(bool training) {
  endLeavers();
  if (training && trainingModels_ > 0) {
    raise<InvalidArgument>(
        "already wrapped: there is a training model of this module or Builder; destroy() it before "
        "making another one");
  }
  ++models_;
  trainingModels_ += training ? 1 : 0;
}

bool Session::leave(bool training) {
  trainingModels_ -= training ? 1 : 0;
  return --models_ == 0;
}

void Session::leaveAfterStep(std::vector<ProgramPtr> programs, bool training) {
  const std::scoped_lock lock(mutex_);
  leavers_.push_back({std::move(programs), training});
}

void Session::endLeavers() {
  std::vector<Leaver> leavers;
  {
    const std::scoped_lock lock(mutex_);
    leavers.swap(leavers_);
  }
  for (Leaver& leaver : leavers) {
    leave(leaver.training);
    retired_.insert(retired_.end(), leaver.programs.begin(), leaver.programs.end());
  }
  if (engine_->isIdle()) {
    retired_.clear();
  }
}

Session::~Session() {
  turn_->onCancel(nullptr);
}

std::string Session::otherDevices(const Options& options) const {
  const devices::DeviceList asked = chosenDevices(options);
  if (asked != pool_.list()) {
    return fmt::format(
        "the module already has a model on devices '{}'; this one asks for '{}': use the same for "
        "both",
        pool_.list().str(),
        asked.str());
  }
  // What was asked for: a device may have a limit of its own where none was.
  const devices::DeviceRequest& given = pool_.common();
  if (given.threads != options.threads() || given.memoryBytes != options.memoryPerDevice()) {
    return fmt::format(
        "the module already has a model on devices of {} threads and {} bytes; this one asks for "
        "{} threads and {} bytes: use the same threads and memoryPerDevice for both",
        given.threads,
        given.memoryBytes,
        options.threads(),
        options.memoryPerDevice());
  }
  if (options.tuningTable() != tuningTable_) {
    return fmt::format(
        "the module already has a model with tuningTable '{}'; this one asks for '{}'",
        tuningTable_,
        options.tuningTable());
  }
  if (options.device().remotePath != remotePath_ || options.device().remoteBytes != remoteBytes_ ||
      options.device().remoteBandwidth != remoteBandwidth_) {
    return fmt::format(
        "the module already has a model with remoteMemory \"{}\" of {} bytes and remoteBandwidth "
        "{}; "
        "this one asks for \"{}\", {} and {}: use the same for both",
        remotePath_,
        remoteBytes_,
        remoteBandwidth_,
        options.device().remotePath,
        options.device().remoteBytes,
        options.device().remoteBandwidth);
  }
  if (options.device().deviceIds != pool_.ids()) {
    return fmt::format(
        "the module already has a model with useDeviceIds [{}]; this one asks for [{}]",
        fmt::join(pool_.ids(), ", "),
        fmt::join(options.device().deviceIds, ", "));
  }
  if (options.state().broadcastBuffers != broadcastBuffers_ ||
      options.device().stallTimeout != stallTimeout_) {
    return fmt::format(
        "the module already has a model with broadcastBuffers {} and stallTimeout {}; this one "
        "asks for {} and {}: use the same for both",
        broadcastBuffers_,
        stallTimeout_,
        options.state().broadcastBuffers,
        options.device().stallTimeout);
  }
  if (options.randomSeed().value_or(seed_) != seed_) {
    return fmt::format("the module already has a model with randomSeed {}; this one asks for {}",
                       seed_,
                       *options.randomSeed());
  }
  return "";
}

void Session::requireSameDevices(const Options& options) const {
  if (const std::string text = otherDevices(options); !text.empty()) {
    raise<InvalidArgument>("{}", text);
  }
}

/// Simulated devices have the memory of their target, if less is not asked for.
std::size_t Session::memoryBudget() const {
  return virtual_ != nullptr ? device().info().memoryBytes : pool_.common().memoryBytes;
}

const std::string& Session::simulatedOn() const {
  static const std::string kNothing;
  return virtual_ != nullptr ? virtual_->target() : kNothing;
}

void Session::requireRoom(const program::Program& lowered) const {
  if (remoteBytes_ != 0 && lowered.remote.totalBytes() > remoteBytes_) {
    raise<OutOfMemory>(
        "program '{}' needs {} bytes of remote memory ({} of variables, {} of activations), and "
        "remoteMemory allows {}",
        lowered.name,
        lowered.remote.totalBytes(),
        lowered.remote.stateBytes,
        lowered.remote.transientBytes,
        remoteBytes_);
  }
  const std::size_t budget = memoryBudget();
  for (std::size_t d = 0; d < lowered.devices.size(); ++d) {
    const program::DevicePlan& plan = lowered.devices[d];
    const std::size_t known = d < largestTransient_.size() ? largestTransient_[d] : 0;
    const std::size_t transient = std::max(plan.transientBytes, known);
    const std::size_t all = plan.ownBytes + plan.stateBytes + transient;
    if (budget != 0 && all > budget) {
      raise<OutOfMemory>(
          "program '{}' brings the state of the model on device {} to {} bytes, and its largest "
          "program has {} bytes of activations and scratch{}: {} in all, the device has {}",
          lowered.name,
          d,
          plan.stateBytes,
          transient,
          plan.ownBytes == 0 ? ""
                             : fmt::format(", and the device takes {} for itself", plan.ownBytes),
          all,
          budget);
    }
  }
}

void Session::warn(const std::vector<std::string>& warnings, const Options& options) {
  for (const std::string& warning : warnings) {
    if (warned_[warning]++ < options.report().maxRepeatLogs) {
      log::warn("session", "{}", warning);
    }
  }
}

void Session::warnOnce(const std::string& text) {
  const runtime::Turn::Hold turn(turn_);
  if (warned_[text]++ == 0) {
    log::warn("session", "{}", text);
  }
}

std::size_t Session::replicasHere(const Options& options) const {
  return processes_ != nullptr ? processes_->replicasHere(options)
                               : static_cast<std::size_t>(options.replicationFactor());
}

/// Variables of the plan that replicas keep in parts and that have no value yet.
std::vector<ir::Variable> Session::newParts(const program::StatePlan& plan) const {
  std::vector<ir::Variable> parts;
  for (const program::PlacedVariable& placed : plan.variables()) {
    if (placed.variable.split && !state().contains(placed.variable.name) &&
        !presets_.contains(placed.variable.name)) {
      parts.push_back(placed.variable);
    }
  }
  return parts;
}

std::unique_ptr<runtime::LoadedProgram> Session::load(program::Program lowered,
                                                      const program::StatePlan& plan,
                                                      const Options& options) {
  const std::size_t replicas = replicasHere(options);
  attach();
  makeDevices(std::max(numDevices(), lowered.devices.size()));
  makeReplicas(replicas);
  const bool apart = processes_ != nullptr && !processes_->peers().group.isWhole();
  std::unique_ptr<runtime::LoadedProgram> loaded =
      engine_->load(ownPart(std::move(lowered)),
                    replicas,
                    {.finite = options.precision.floatingPointExceptions(),
                     .writes = options.report().traceValues != TraceValues::None,
                     .kernels = options.report().traceKernels},
                    apart ? runtime::Replicas::Apart : runtime::Replicas::Here);
  shareNew(plan);
  const std::vector<ir::Variable> added = newParts(plan);
  for (Replica& replica : replicas_) {
    replica.state->adopt(plan);
  }
  for (const ir::Variable& variable : added) {
    write(variable.name, ir::initialValue(variable, seed_));
  }
  writePresets();
  for (std::size_t d = 0; d < loaded->program().devices.size(); ++d) {
    largestTransient_[d] =
        std::max(largestTransient_[d], loaded->program().devices[d].transientBytes);
  }
  return loaded;
}

std::vector<program::Target> Session::targets() {
  std::vector<program::Target> all;
  for (const device::Device* sample : pool_.samples(device())) {
    all.push_back(program::targetOf(*sample));
  }
  return all;
}

TargetRecord Session::target() {
  TargetRecord record{.library = std::string(version()), .devices = pool_.list().str()};
  for (const device::Device* sample : pool_.samples(device())) {
    record.descriptions.push_back(sample->info().description);
  }
  Hasher tuning;
  for (const auto& [key, value] : pool_.common().tuning) {
    tuning.add(key).add(value);
  }
  record.tuning = tuning.digest();
  return record;
}

bool Session::mayInstall(const program::StatePlan& plan) const {
  const std::vector<program::PlacedVariable>& here = state().plan().variables();
  std::size_t common = 0;
  for (const program::PlacedVariable& placed : here) {
    const program::PlacedVariable* other = plan.find(placed.variable.name);
    if (other == nullptr) {
      continue;
    }
    ++common;
    if (other->variable.type != placed.variable.type ||
        other->variable.role != placed.variable.role || other->slices() != placed.slices()) {
      return false;
    }
  }
  return common == std::min(here.size(), plan.variables().size());
}

void Session::complete(compiler::CompileRequest& request) {
  request.state = state().plan();
  request.remoteBytes = remoteBytes_;
  request.lower.targets = targets();
  request.lower.remoteInFile = !remotePath_.empty();
  request.lower.memoryPerDevice = memoryBudget();
  request.hooks.requireGoing = [this] { requireGoing(); };
}

void Session::check(compiler::CompileRequest request) {
  const runtime::Turn::Hold turn(turn_);
  settle();
  complete(request);
  request.last = CompilePhase::Plan;
  request.dumpFolder.clear();
  static_cast<void>(compiler::compileGraph(std::move(request)));
}

CompiledProgram Session::compile(compiler::CompileRequest request,
                                 const Options& options,
                                 CompileProgress* progress,
                                 const CacheUse* cache) {
  const runtime::Turn::Hold turn(turn_);
  settle();
  const auto begin = [progress](CompilePhase phase) {
    if (progress != nullptr) {
      progress->begin(phase);
    }
  };
  complete(request);
  request.hooks.onPhase = begin;
  bool cached = false;
  compiler::Compiled made = compiled(std::move(request), cache, cached);
  requireGoing();
  warn(made.warnings, options);
  begin(CompilePhase::Load);
  CompiledProgram result = install(std::move(made), options);
  result.cached = cached;
  return result;
}

compiler::Compiled Session::compiled(compiler::CompileRequest request,
                                     const CacheUse* cache,
                                     bool& cached) {
  if (cache == nullptr) {
    return compiler::compileGraph(std::move(request));
  }
  const std::string key = cacheKey(cache->key, target(), request);
  const InitialValues values(request);
  const auto check = [&](const compiler::Compiled& found) {
    program::requireSound(found.program, found.state, request.replicas);
    if (!program::otherChoice(found.program, request.lower.targets).empty() ||
        !mayInstall(found.state)) {
      raise<FileError>("the program is for other devices");
    }
  };
  if (std::optional<compiler::Compiled> found = cache->cache.find(key, check)) {
    found->state = values.restored(found->state);
    found->proven = true;
    cache->onHit(found->state);
    cached = true;
    return std::move(*found);
  }
  compiler::Compiled made = compiler::compileGraph(std::move(request));
  if (values.cover(made.state)) {
    cache->cache.store(key, made);
  }
  return made;
}

CompiledProgram Session::install(compiler::Compiled made, const Options& options) {
  const runtime::Turn::Hold turn(turn_);
  settle();
  agree(made.program, options);
  requireRoom(made.program);
  pool_.require(std::max(numDevices(), made.program.devices.size()),
                std::max(numReplicas(), replicasHere(options)));
  requireGoing();
  CompiledProgram compiled{.program = nullptr,
                           .plan = std::move(made.plan),
                           .proven = made.proven,
                           .tensorNames = std::move(made.tensorNames),
                           .fetchedLoss = made.fetchedLoss,
                           .warnings = std::move(made.warnings),
                           .devices = made.devices};
  if (options.device().connection == ConnectionType::Never) {
    compiled.program = std::make_unique<runtime::LoadedProgram>(std::move(made.program));
    compiled.state = std::move(made.state);
  } else {
    compiled.program = load(std::move(made.program), made.state, options);
  }
  return compiled;
}

}  // namespace sluice
