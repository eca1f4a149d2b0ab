#include "sluice/api/environment_profile.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sluice/base/environment.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/base/near_names.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr const char* kOurs = "SLUICE_PROFILE";
constexpr const char* kPoplar = "POPLAR_ENGINE_OPTIONS";

Json objectIn(const std::string& text, const char* variable) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    raise<ConfigFileError>(
        "{}: expected JSON like {{\"directory\": \"profile\"}}, got '{}'", variable, text);
  }
  return json;
}

/// "true" in quotes is Poplar's way.
bool flagOf(const Json& value, const char* variable) {
  return value.is_boolean()
             ? value.get<bool>()
             : isOn(value.is_string() ? value.get<std::string>() : value.dump(), variable);
}

std::string textOf(const Json& value, const char* variable, std::string_view key) {
  if (!value.is_string() || value.get<std::string>().empty()) {
    raise<ConfigFileError>("{}: expected {} to be a text, got {}", variable, key, value.dump());
  }
  return value.get<std::string>();
}

TraceValues valuesOf(const Json& value) {
  const std::string text = textOf(value, kOurs, "values");
  const auto& names = EnumText<TraceValues>::kNames;
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) {
    raise<ConfigFileError>(
        "{}: expected values to be {}, got '{}'", kOurs, fmt::join(names, ", "), text);
  }
  return static_cast<TraceValues>(found - names.begin());
}

std::optional<EnvironmentProfile> ofOurs(const std::string& text) {
  static constexpr std::array<std::string_view, 4> kKeys = {
      "directory", "enable", "kernels", "values"};
  EnvironmentProfile profile;
  bool enabled = true;
  const Json json = objectIn(text, kOurs);
  for (const auto& [key, value] : json.items()) {
    if (key == "directory") {
      profile.directory = textOf(value, kOurs, key);
    } else if (key == "enable") {
      enabled = flagOf(value, kOurs);
    } else if (key == "kernels") {
      profile.kernels = flagOf(value, kOurs);
    } else if (key == "values") {
      profile.values = valuesOf(value);
    } else {
      raise<ConfigFileError>("{}: there is no key '{}'{}", kOurs, key, didYouMean(key, kKeys));
    }
  }
  return enabled ? std::optional(profile) : std::nullopt;
}

std::optional<EnvironmentProfile> ofPoplar(const std::string& text) {
  EnvironmentProfile profile;
  bool enabled = false;
  const Json json = objectIn(text, kPoplar);
  for (const auto& [key, value] : json.items()) {
    if (key == "autoReport.all" || key == "autoReport.outputExecutionProfile") {
      enabled = enabled || flagOf(value, kPoplar);
    } else if (key == "autoReport.directory") {
      profile.directory = textOf(value, kPoplar, key);
    } else {
      log::debug("environment", "{}: {} has no counterpart and is ignored", kPoplar, key);
    }
  }
  return enabled ? std::optional(profile) : std::nullopt;
}

}  // namespace

std::optional<EnvironmentProfile> profileOfEnvironment() {
  if (const std::optional<std::string> ours = environmentValue(kOurs)) {
    return ofOurs(*ours);
  }
  const std::optional<std::string> poplar = environmentValue(kPoplar);
  std::optional<EnvironmentProfile> profile = poplar ? ofPoplar(*poplar) : std::nullopt;
  if (profile) {
    log::info("environment", "{} asks for reports: read as {}", kPoplar, kOurs);
  }
  return profile;
}

}  // namespace sluice
