#include "sluice/devices/registry.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "sluice/base/environment.h"
#include "sluice/base/error.h"
#include "sluice/devices/claim.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/far/far_device.h"
#include "sluice/devices/far/order_check.h"
#include "sluice/devices/kind.h"
#include "sluice/devices/sim/sim_device.h"

#ifdef SLUICE_WITH_CUDA
#include "sluice/devices/cuda/cuda_device.h"
#endif

namespace sluice::devices {
namespace {

std::string always() {
  return "";
}

/// Made on demand.
std::optional<int> anyNumber() {
  return std::nullopt;
}

int indexOf(const DeviceRequest& request) {
  return request.name.index.value_or(request.number);
}

/// All CPU devices are this machine: those of cpu*3 share it like those of cpu:0*3.
std::unique_ptr<device::Device> makeCpu(const DeviceRequest& request) {
  return cpu::makeCpuDevice({.index = indexOf(request),
                             .shares = request.name.shares,
                             .threads = request.threads,
                             .memoryBytes = request.memoryBytes,
                             .tuning = request.tuning});
}

/// SLUICE_FAR_CHECK: the far devices of this process find work that nothing puts in order.
std::shared_ptr<far::OrderCheck> farOrderCheck() {
  static const std::shared_ptr<far::OrderCheck> kCheck =
      isSwitchedOn("SLUICE_FAR_CHECK") ? std::make_shared<far::OrderCheck>() : nullptr;
  return kCheck;
}

/// Those of far*3 are three, those of far:0*3 are one.
std::unique_ptr<device::Device> makeFar(const DeviceRequest& request) {
  return far::makeFarDevice({.index = indexOf(request),
                             .shares = request.name.index ? request.name.shares : 1,
                             .threads = request.threads,
                             .memoryBytes = request.memoryBytes,
                             .tuning = request.tuning,
                             .orderCheck = farOrderCheck()});
}

/// SLUICE_SIM_DEVICES: so many simulated devices are there for all processes of the user. Not set:
/// as many as anybody wants.
std::optional<int> simCount() {
  const std::optional<std::string> text = environmentValue("SLUICE_SIM_DEVICES");
  if (!text) {
    return std::nullopt;
  }
  int count = 0;
  const char* end = text->data() + text->size();
  if (std::from_chars(text->data(), end, count).ptr != end || count < 1) {
    raise<InvalidArgument>("SLUICE_SIM_DEVICES: expected a number from 1 on, got '{}'", *text);
  }
  return count;
}

/// Devices that share a number are not exclusive.
std::function<std::shared_ptr<const void>()> simClaim(const DeviceRequest& request) {
  const std::optional<int> count = simCount();
  if (!count || (request.name.index && request.name.shares > 1)) {
    return nullptr;
  }
  return [count = *count, index = request.name.index] {
    return claimDevice({.kind = "sim", .count = count, .index = index, .waits = waitsForDevices()});
  };
}

/// Those of sim*3 are three, those of sim:0*3 are one.
std::unique_ptr<device::Device> makeSim(const DeviceRequest& request) {
  return sim::makeSimDevice({.target = sim::findTarget(request.name.target),
                             .index = indexOf(request),
                             .shares = request.name.index ? request.name.shares : 1,
                             .threads = request.threads,
                             .memoryBytes = request.memoryBytes,
                             .tuning = request.tuning,
                             .claim = simClaim(request)});
}

void checkSimTarget(std::string_view name) {
  static_cast<void>(sim::findTarget(name));
}

#ifdef SLUICE_WITH_CUDA
/// Those of cuda*3 are three GPUs, those of cuda:0*3 share one.
std::unique_ptr<device::Device> makeCuda(const DeviceRequest& request) {
  return cuda::makeCudaDevice({.index = indexOf(request),
                               .shares = request.name.index ? request.name.shares : 1,
                               .threads = request.threads,
                               .memoryBytes = request.memoryBytes,
                               .tuning = request.tuning,
                               .codeCache = request.codeCache});
}
#endif

constexpr auto kKinds = std::to_array<Kind>({
    {"cpu", "threads of this machine", always, anyNumber, makeCpu},
    {"far",
     "the CPU's kernels on memory that the host cannot read, with queues of their own",
     always,
     anyNumber,
     makeFar},
    {"sim",
     "devices of a target in virtual time (ipu1, ipu2, ipu21, measured), values by the CPU's "
     "kernels",
     always,
     simCount,
     makeSim,
     checkSimTarget},
#ifdef SLUICE_WITH_CUDA
    {"cuda", "GPUs of NVIDIA", cuda::whyUnusable, cuda::gpuCount, makeCuda},
#endif
});

const Kind& kindOf(std::string_view name, std::span<const Kind> kinds) {
  const auto found = std::ranges::find(kinds, name, &Kind::name);
  if (found == kinds.end()) {
    std::string names;
    for (const Kind& kind : kinds) {
      names += (names.empty() ? "" : ", ") + std::string(kind.name);
    }
    raise<InvalidArgument>("there is no kind of device '{}'; this build has: {}", name, names);
  }
  return *found;
}

void requireUsable(const Kind& kind) {
  if (const std::string why = kind.unusable(); !why.empty()) {
    raise<DeviceError>("devices of kind '{}' cannot be used here: {}", kind.name, why);
  }
}

void requireThere(const Kind& kind, int index) {
  if (const std::optional<int> count = kind.count(); count && index >= *count) {
    raise<InvalidArgument>(
        "there is no device {}:{}; this machine has {} of the kind", kind.name, index, *count);
  }
}

[[noreturn]] void refuseForm(std::string_view text, std::string_view all) {
  raise<InvalidArgument>(
      "expected devices as kind[@target][:index][*shares], separated by commas, like cpu or far*3; "
      "got "
      "'{}'{}",
      text,
      text == all ? "" : fmt::format(" in '{}'", all));
}

/// The number after `mark`; both are cut off.
std::optional<int> cutNumber(std::string_view& text, char mark, std::string_view all) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view digits = text.substr(at + 1);
  int number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0) {
    refuseForm(text, all);
  }
  text = text.substr(0, at);
  return number;
}

/// What follows '@'; both are cut off.
std::optional<std::string> cutTarget(std::string_view& text) {
  const std::size_t at = text.find('@');
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::string target(text.substr(at + 1));
  text = text.substr(0, at);
  return target;
}

void requireTarget(const Kind& kind, const std::string& target) {
  if (kind.checkTarget == nullptr || target.empty()) {
    raise<InvalidArgument>("expected {}, got '{}@{}'",
                           kind.checkTarget == nullptr
                               ? fmt::format("no target, because kind '{}' has none", kind.name)
                               : "the name or file of a target after '@'",
                           kind.name,
                           target);
  }
  kind.checkTarget(target);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace

std::string DeviceName::str() const {
  return fmt::format("{}{}{}{}",
                     kind,
                     target.empty() ? "" : "@" + target,
                     index ? fmt::format(":{}", *index) : "",
                     shares > 1 ? fmt::format("*{}", shares) : "");
}

const DeviceName& DeviceList::at(std::size_t i) const {
  if (i >= names.size() && !endless) {
    raise<InvalidArgument>(
        "the model needs at least {} devices, and its list of devices names {}{}: name more, or a "
        "kind without index and shares at the end",
        i + 1,
        names.size(),
        source.empty() ? "" : fmt::format(" (in {})", source));
  }
  return names[std::min(i, names.size() - 1)];
}

bool DeviceList::isNumbered() const {
  return std::ranges::any_of(names, [](const DeviceName& name) { return name.index.has_value(); });
}

/// A name with shares stands there once for each of them.
std::string DeviceList::str() const {
  std::string text;
  for (std::size_t i = 0; i < names.size(); i += static_cast<std::size_t>(names[i].shares)) {
    text += (text.empty() ? "" : ",") + names[i].str();
  }
  return text;
}

DeviceList parseDevices(std::string_view all, std::span<const Kind> kinds) {
  constexpr int kMostShares = 1024;
  DeviceList list;
  for (std::string_view rest = all;;) {
    const std::size_t comma = rest.find(',');
    std::string_view text = trimmed(rest.substr(0, comma));
    if (text.empty()) {
      refuseForm(text, all);
    }
    const std::optional<int> shares = cutNumber(text, '*', all);
    const std::optional<int> index = cutNumber(text, ':', all);
    const std::optional<std::string> target = cutTarget(text);
    const Kind& kind = kindOf(text, kinds);
    requireUsable(kind);
    if (target) {
      requireTarget(kind, *target);
    }
    if (index) {
      requireThere(kind, *index);
    }
    if (shares && (*shares < 1 || *shares > kMostShares)) {
      raise<InvalidArgument>(
          "a device can be shared by 1 to {} devices, got {}", kMostShares, *shares);
    }
    const DeviceName name{std::string(kind.name), index, shares.value_or(1), target.value_or("")};
    list.names.insert(list.names.end(), static_cast<std::size_t>(name.shares), name);
    list.endless = !index && !shares;
    if (comma == std::string_view::npos) {
      return list;
    }
    rest = rest.substr(comma + 1);
  }
}

std::vector<KindInfo> deviceKinds(std::span<const Kind> kinds) {
  std::vector<KindInfo> all;
  for (const Kind& kind : kinds) {
    KindInfo& info = all.emplace_back(KindInfo{kind.name, kind.summary, kind.unusable(), {}, {}});
    if (info.unusable.empty()) {
      info.count = kind.count();
      info.info = kind.make({.name = {.kind = std::string(kind.name)}})->info();
    }
  }
  return all;
}

std::unique_ptr<device::Device> makeDevice(const DeviceRequest& request,
                                           std::span<const Kind> kinds) {
  const Kind& kind = kindOf(request.name.kind, kinds);
  requireUsable(kind);
  requireThere(kind, indexOf(request));
  return kind.make(request);
}

DeviceList parseDevices(std::string_view text) {
  return parseDevices(text, kKinds);
}

DeviceList chosenDevices(std::string_view text) {
  if (!text.empty()) {
    return parseDevices(text);
  }
  const char* fromEnvironment = std::getenv("SLUICE_DEVICE");
  if (fromEnvironment == nullptr || *fromEnvironment == '\0') {
    return parseDevices("cpu");
  }
  constexpr std::string_view kSource = "the environment variable SLUICE_DEVICE";
  try {
    DeviceList list = parseDevices(fromEnvironment);
    list.source = kSource;
    return list;
  } catch (Error& error) {
    error.at(kSource);
    throw;
  }
}

std::vector<KindInfo> deviceKinds() {
  return deviceKinds(kKinds);
}

std::unique_ptr<device::Memory> wrapMemory([[maybe_unused]] std::string_view kind,
                                           [[maybe_unused]] int index,
                                           [[maybe_unused]] ForeignBytes given) {
#ifdef SLUICE_WITH_CUDA
  if (kind == "cuda") {
    requireUsable(kindOf(kind, kKinds));
    return cuda::wrapMemory(given.pointer, given.bytes, index);
  }
#endif
  raise<Unsupported>(
      "this build takes no memory of devices of kind '{}' from other libraries: pass tensors in "
      "the "
      "host's memory",
      kind);
}

std::unique_ptr<device::Device> makeDevice(const DeviceRequest& request) {
  return makeDevice(request, kKinds);
}

}  // namespace sluice::devices
