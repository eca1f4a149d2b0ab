#include "sluice/api/options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/devices/registry.h"
#include "sluice/nn/checks.h"
#include "sluice/parallel/device_rules.h"

namespace sluice {
namespace {

std::int32_t positive(std::string_view what, std::int64_t count) {
  if (count < 1 || count > std::numeric_limits<std::int32_t>::max()) {
    raise<InvalidArgument>("{} must be a positive 32-bit count, got {}", what, count);
  }
  return static_cast<std::int32_t>(count);
}

/// Only EveryN has a period.
std::int32_t checkedPeriod(std::string_view setter, OutputMode mode, std::int64_t period) {
  if (mode == OutputMode::EveryN) {
    return positive(fmt::format("the period of {} EveryN", setter), period);
  }
  if (period != 1) {
    log::info("options", "{} {} has no period; {} is ignored", setter, name(mode), period);
  }
  return 1;
}

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 12> kUnits = {{{"", 1},
                                          {"b", 1},
                                          {"k", 0x1p10},
                                          {"kb", 1e3},
                                          {"kib", 0x1p10},
                                          {"m", 0x1p20},
                                          {"mb", 1e6},
                                          {"mib", 0x1p20},
                                          {"g", 0x1p30},
                                          {"gb", 1e9},
                                          {"gib", 0x1p30},
                                          {"tib", 0x1p40}}};

}  // namespace

std::size_t parseBytes(std::string_view text) {
  const std::string owned(text);
  char* end = nullptr;
  const double number = std::strtod(owned.c_str(), &end);
  std::string unit;
  for (const char* c = end; *c != '\0'; ++c) {
    if (*c != ' ') {
      unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
    }
  }
  const auto found = std::ranges::find(kUnits, unit, &Unit::name);
  const bool valid = end != owned.c_str() && std::isfinite(number) && number >= 0 &&
                     found != kUnits.end() && number * found->bytes < 0x1p62;
  if (!valid) {
    raise<InvalidArgument>(
        "'{}' is not a size; expected a number of bytes such as 4096, 64KiB, 256MiB or 1.5GB",
        text);
  }
  return static_cast<std::size_t>(number * found->bytes);
}

Freezable& Freezable::operator=(const Freezable& /*other*/) {  // NOLINT: has no state to copy
  requireUnfrozen();
  return *this;
}

void Freezable::requireUnfrozen() const {
  if (frozen_) {
    raise<InvalidArgument>(
        "can't modify frozen options: a model already uses them; change a clone() and give it to a "
        "new model");
  }
}

TrainingOptions& TrainingOptions::gradientAccumulation(std::int64_t count) {
  return set(gradientAccumulation_, positive("gradientAccumulation", count));
}

TrainingOptions& TrainingOptions::logGradientStatistics(std::int64_t period) {
  if (period < 0) {
    raise<InvalidArgument>("logGradientStatistics: a period cannot be negative, got {}", period);
  }
  return set(gradientStatisticsPeriod_, period);
}

PrecisionOptions& PrecisionOptions::autocastPolicy(Policy policy) {
  nn::requireValid(policy);
  return set(traced_.autocastPolicy, std::move(policy));
}

PrecisionOptions& PrecisionOptions::setPartialsType(DType dtype) {
  if (dtype != DType::F32 && dtype != DType::F16) {
    raise<InvalidArgument>("setPartialsType: expected f32 or f16, got {}", name(dtype));
  }
  return set(partialsType_, dtype);
}

JitOptions& JitOptions::traceModel(bool on) {
  requireUnfrozen();
  traceModel_ = on;
  return *this;
}

Options& Options::deviceIterations(std::int64_t count) {
  return set(batch_.deviceIterations, positive("deviceIterations", count));
}

Options& Options::replicationFactor(std::int64_t count) {
  return set(batch_.replicationFactor, positive("replicationFactor", count));
}

Options& Options::inputReplicaGrouping(std::int64_t size, CommGroupType type) {
  if (type == CommGroupType::All) {
    raise<InvalidArgument>(
        "inputReplicaGrouping: type All would give all replicas one input; expected Consecutive or "
        "Orthogonal");
  }
  set(batch_.inputGroupSize, positive("the size of inputReplicaGrouping", size));
  return set(batch_.inputGroupType, type);
}

Options& Options::outputMode(OutputMode mode, std::int64_t period) {
  set(batch_.outputPeriod, checkedPeriod("outputMode", mode, period));
  return set(batch_.outputMode, mode);
}

Options& Options::anchorTensor(std::string shortName,
                               std::string longName,
                               OutputMode mode,
                               std::int64_t period) {
  requireUnfrozen();
  if (shortName.empty() || longName.empty()) {
    raise<InvalidArgument>(
        "anchorTensor needs a short name and the name of a tensor, got '{}', '{}'",
        shortName,
        longName);
  }
  if (std::ranges::find(batch_.anchors, shortName, &Anchor::shortName) != batch_.anchors.end()) {
    raise<InvalidArgument>("anchorTensor: there already is an anchor '{}'", shortName);
  }
  const std::int32_t checked = checkedPeriod("anchorTensor", mode, period);
  batch_.anchors.push_back({std::move(shortName), std::move(longName), mode, checked});
  return *this;
}

Options& Options::enableSyntheticData(bool on) {
  return syntheticDataMode(on ? SyntheticDataMode::RandomNormal : SyntheticDataMode::Off);
}

Options& Options::device(std::string_view names) {
  if (!names.empty()) {
    devices::parseDevices(names);
  }
  return set(device_.names, std::string(names));
}

Options& Options::threads(std::int64_t count) {
  if (count > 1024) {
    raise<InvalidArgument>("threads must be 1 to 1024, got {}", count);
  }
  return set(device_.threads, positive("threads", count));
}

Options& Options::memoryPerDevice(std::string_view size) {
  return set(device_.memoryBytes, parseBytes(size));
}

Options& Options::undoMemory(std::string_view size) {
  return set(device_.undoBytes, parseBytes(size));
}

Options& Options::setAvailableMemoryProportion(const std::map<std::string, double>& proportions) {
  std::map<std::int32_t, double> byDevice;
  for (const auto& [key, proportion] : proportions) {
    std::int32_t device = -1;
    const char* end = key.data() + key.size();
    const bool named = key.starts_with("IPU") && key.size() > 3;
    if (!named || std::from_chars(key.data() + 3, end, device).ptr != end || device < 0) {
      raise<InvalidArgument>(
          "setAvailableMemoryProportion: a device is called IPU and its number, got '{}'", key);
    }
    byDevice.insert_or_assign(device, nn::checkedProportion(proportion));
  }
  return set(device_.availableMemory, std::move(byDevice));
}

Options& Options::remoteMemory(std::string path, std::string_view size) {
  return remoteMemory(std::move(path), parseBytes(size));
}

Options& Options::remoteMemory(std::string path, std::size_t bytes) {
  set(device_.remotePath, std::move(path));
  return set(device_.remoteBytes, bytes);
}

Options& Options::enableExecutableCaching(std::optional<std::string> folder,
                                          std::string_view size) {
  const std::size_t bytes = parseBytes(size);
  if (bytes == 0) {
    raise<InvalidArgument>("enableExecutableCaching: the cache needs room, got a size of 0");
  }
  set(compile_.cacheFolder, std::move(folder));
  return set(compile_.cacheBytes, bytes);
}

Options& Options::recovery(std::int64_t retries, double backoff, std::int64_t everyN) {
  constexpr std::int64_t kMostRetries = 1000;
  constexpr double kLongestBackoff = 3600;
  if (retries < 0 || retries > kMostRetries) {
    raise<InvalidArgument>("recovery: expected 0 to {} retries, got {}", kMostRetries, retries);
  }
  if (!(backoff >= 0 && backoff <= kLongestBackoff)) {
    raise<InvalidArgument>(
        "recovery: expected a backoff of 0 to {} seconds, got {}", kLongestBackoff, backoff);
  }
  if (everyN < 0 || everyN > std::numeric_limits<std::int32_t>::max()) {
    raise<InvalidArgument>("recovery: expected a copy every 1 or more calls, or 0 for none, got {}",
                           everyN);
  }
  return set(recovery_,
             RecoveryOptions{
                 static_cast<std::int32_t>(retries), backoff, static_cast<std::int32_t>(everyN)});
}

Options& Options::remoteBandwidth(double bytesPerSecond) {
  if (!std::isfinite(bytesPerSecond) || bytesPerSecond < 0) {
    raise<InvalidArgument>("remoteBandwidth must be a number of bytes per second from 0 on, got {}",
                           bytesPerSecond);
  }
  return set(device_.remoteBandwidth, bytesPerSecond);
}

Options& Options::useOfflineTarget(std::int64_t version) {
  if (version != 1 && version != 2 && version != 21) {
    raise<InvalidArgument>("useOfflineTarget: expected version 1, 2 or 21, got {}", version);
  }
  if (device_.names.empty()) {
    device(fmt::format("sim@ipu{}", version));
  }
  return connectionType(ConnectionType::Never);
}

Options& Options::useDeviceIds(std::vector<std::int64_t> ids) {
  std::vector<std::int32_t> checked;
  for (const std::int64_t id : ids) {
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      raise<InvalidArgument>("useDeviceIds: a device has a number from 0 on, got {}", id);
    }
    if (std::ranges::count(ids, id) > 1) {
      raise<InvalidArgument>("useDeviceIds: device {} is named twice", id);
    }
    checked.push_back(static_cast<std::int32_t>(id));
  }
  return set(device_.deviceIds, std::move(checked));
}

Options& Options::useDeviceId(std::optional<std::int64_t> id) {
  return useDeviceIds(id ? std::vector<std::int64_t>{*id} : std::vector<std::int64_t>());
}

Options& Options::autoSelectDevices(std::int64_t devices, std::int64_t perReplica) {
  requireUnfrozen();
  const std::int32_t checked = positive("the devices of autoSelectDevices", devices);
  const std::int64_t replicas = parallel::replicasFor(devices, perReplica);
  device_.selectedDevices = checked;
  device_.selectedPerReplica = static_cast<std::int32_t>(perReplica);
  return replicationFactor(replicas);
}

Options& Options::autoSelectDevices(std::nullopt_t /*none*/) {
  set(device_.selectedDevices, 0);
  return set(device_.selectedPerReplica, 1);
}

Options& Options::selectDevices(std::vector<std::int64_t> ids, std::int64_t perReplica) {
  Options changed = *this;
  const std::int64_t count = std::ssize(ids);
  changed.useDeviceIds(std::move(ids)).autoSelectDevices(count, perReplica);
  return *this = std::move(changed);
}

Options& Options::updatableNamedBuffers(std::vector<std::string> names) {
  if (std::ranges::find(names, "") != names.end()) {
    raise<InvalidArgument>("updatableNamedBuffers: a buffer needs a name");
  }
  return set(state_.updatableNamedBuffers, std::move(names));
}

Options& Options::logDir(std::string folder) {
  if (folder.empty()) {
    raise<InvalidArgument>("logDir: expected a folder, \".\" for the current one");
  }
  return set(report_.logDir, std::move(folder));
}

Options& Options::stallTimeout(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) {
    raise<InvalidArgument>("stallTimeout must be a number of seconds from 0 on, got {}", seconds);
  }
  return set(device_.stallTimeout, seconds);
}

Options& Options::virtualGraphSplitRatios(std::vector<double> ratios) {
  double sum = 0;
  for (const double ratio : ratios) {
    if (!(ratio > 0 && ratio < 1)) {
      raise<InvalidArgument>(
          "virtualGraphSplitRatios: a ratio is between 0 and 1, both excluded, got {}", ratio);
    }
    sum += ratio;
  }
  if (!ratios.empty() && std::abs(sum - 1) > 1e-6) {
    raise<InvalidArgument>("virtualGraphSplitRatios: the ratios must add up to 1, got {}", sum);
  }
  return set(compile_.virtualGraphSplitRatios, std::move(ratios));
}

Options& Options::devicesPerReplica(std::int64_t count) {
  return set(compile_.devicesPerReplica, positive("devicesPerReplica", count));
}

Options& Options::executionPhases(std::int64_t phases, std::int64_t groups) {
  if (groups != 1 && groups != 2) {
    raise<InvalidArgument>("executionPhases: expected 1 or 2 groups of devices, got {}", groups);
  }
  set(compile_.executionPhases, positive("executionPhases", phases));
  return set(compile_.phaseGroups, static_cast<std::int32_t>(groups));
}

Options& Options::maxRepeatLogs(std::int64_t count) {
  if (count < 0 || count > std::numeric_limits<std::int32_t>::max()) {
    raise<InvalidArgument>("maxRepeatLogs must be a count from 0 on, got {}", count);
  }
  return set(report_.maxRepeatLogs, static_cast<std::int32_t>(count));
}

void Options::freeze() const {
  setFrozen();
  training.setFrozen();
  precision.setFrozen();
  jit.setFrozen();
  distributed.setFrozen();
  tensorLocations.setFrozen();
}

std::int32_t Options::allReplicas() const {
  const std::int64_t all = distributed.shareModel()
                               ? replicationFactor()
                               : distributed.globalReplicationFactor(replicationFactor());
  if (all > std::numeric_limits<std::int32_t>::max()) {
    raise<InvalidArgument>("{} processes with {} replicas each are too many",
                           distributed.numProcesses(),
                           replicationFactor());
  }
  return static_cast<std::int32_t>(all);
}

}  // namespace sluice
