#include "sluice/devices/registry.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/far/far_device.h"

namespace sluice::devices {
namespace {

struct Kind {
  std::string_view name;
  std::string_view summary;
  std::string (*unusable)();  ///< why it cannot be used here; empty: it can
  int (*count)();             ///< devices with a number of their own
  std::unique_ptr<device::Device> (*make)(const DeviceRequest&);
};

std::string always() {
  return "";
}

/// Made on demand, any number of them.
int anyNumber() {
  return std::numeric_limits<int>::max();
}

int indexOf(const DeviceRequest& request) {
  return request.name.index.value_or(request.number);
}

std::unique_ptr<device::Device> makeCpu(const DeviceRequest& request) {
  return cpu::makeCpuDevice({.index = indexOf(request),
                             .threads = request.threads,
                             .memoryBytes = request.memoryBytes,
                             .tuning = request.tuning});
}

std::unique_ptr<device::Device> makeFar(const DeviceRequest& request) {
  return far::makeFarDevice({.index = indexOf(request),
                             .threads = request.threads,
                             .memoryBytes = request.memoryBytes,
                             .tuning = request.tuning});
}

constexpr std::array<Kind, 2> kKinds = {{
    {"cpu", "threads of this machine", always, anyNumber, makeCpu},
    {"far",
     "the CPU's kernels on memory that the host cannot read, with queues of their own",
     always,
     anyNumber,
     makeFar},
}};

std::string kindNames() {
  std::string names;
  for (const Kind& kind : kKinds) {
    names += (names.empty() ? "" : ", ") + std::string(kind.name);
  }
  return names;
}

const Kind& kindOf(std::string_view name) {
  const auto found = std::ranges::find(kKinds, name, &Kind::name);
  if (found == kKinds.end()) {
    raise<InvalidArgument>(
        "there is no kind of device '{}'; this build has: {}", name, kindNames());
  }
  return *found;
}

[[noreturn]] void refuseForm(std::string_view text, std::string_view all) {
  raise<InvalidArgument>(
      "expected devices as kind[:index][*shares], separated by commas, like cpu or far*3; got "
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

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace

std::string DeviceName::str() const {
  return fmt::format("{}{}{}",
                     kind,
                     index ? fmt::format(":{}", *index) : "",
                     shares > 1 ? fmt::format("*{}", shares) : "");
}

const DeviceName& DeviceList::at(std::size_t i) const {
  if (i >= names.size() && !endless) {
    raise<InvalidArgument>(
        "the model needs at least {} devices, and its list of devices names {}: name more, or a "
        "kind "
        "without index and shares at the end",
        i + 1,
        names.size());
  }
  return names[std::min(i, names.size() - 1)];
}

DeviceList parseDevices(std::string_view all) {
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
    const Kind& kind = kindOf(text);
    if (const std::string why = kind.unusable(); !why.empty()) {
      raise<DeviceError>("devices of kind '{}' cannot be used here: {}", kind.name, why);
    }
    if (index && *index >= kind.count()) {
      raise<InvalidArgument>("there is no device {}:{}; this machine has {} of the kind",
                             kind.name,
                             *index,
                             kind.count());
    }
    if (shares && (*shares < 1 || *shares > kMostShares)) {
      raise<InvalidArgument>(
          "a device can be shared by 1 to {} devices, got {}", kMostShares, *shares);
    }
    const DeviceName name{std::string(kind.name), index, shares.value_or(1)};
    list.names.insert(list.names.end(), static_cast<std::size_t>(name.shares), name);
    list.endless = !index && !shares;
    if (comma == std::string_view::npos) {
      return list;
    }
    rest = rest.substr(comma + 1);
  }
}

std::vector<KindInfo> deviceKinds() {
  std::vector<KindInfo> all;
  for (const Kind& kind : kKinds) {
    KindInfo& info = all.emplace_back(KindInfo{kind.name, kind.summary, kind.unusable(), {}});
    if (info.unusable.empty()) {
      info.info = kind.make({.name = {.kind = std::string(kind.name)}})->info();
    }
  }
  return all;
}

std::unique_ptr<device::Device> makeDevice(const DeviceRequest& request) {
  return kindOf(request.name.kind).make(request);
}

}  // namespace sluice::devices
