#include "sluice/base/environment.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <mutex>
#include <set>

#include "sluice/base/error.h"
#include "sluice/base/log.h"

namespace sluice {
namespace {

std::optional<std::string> valueOf(const char* name) {
  const char* value = *name == '\0' ? nullptr : std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

bool isFirstUse(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string> used;
  const std::scoped_lock lock(mutex);
  return used.insert(name).second;
}

}  // namespace

std::optional<std::string> environmentValue(const char* ours, const char* original) {
  if (std::optional<std::string> value = valueOf(ours)) {
    return value;
  }
  std::optional<std::string> value = valueOf(original);
  if (value && isFirstUse(original)) {
    log::info("environment", "{} is set and read as {}: {}", original, ours, *value);
  }
  return value;
}

bool isOn(std::string_view value, std::string_view variable) {
  std::string lower(value);
  std::ranges::transform(
      lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::array<std::string_view, 4> kOn = {"1", "true", "yes", "on"};
  constexpr std::array<std::string_view, 4> kOff = {"0", "false", "no", "off"};
  if (std::ranges::find(kOn, lower) != kOn.end()) {
    return true;
  }
  if (std::ranges::find(kOff, lower) == kOff.end()) {
    raise<InvalidArgument>("{}: expected 1 or 0, got '{}'", variable, value);
  }
  return false;
}

bool isSwitchedOn(const char* ours, const char* original) {
  const std::optional<std::string> value = environmentValue(ours, original);
  return value && isOn(*value, ours);
}

}  // namespace sluice
