#include "sluice/base/log.h"

#include <array>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "sluice/base/console.h"
#include "sluice/base/error.h"
#include "sluice/base/input_file.h"

namespace sluice::log {
namespace {

constexpr Level kDefaultLevel = Level::Info;
/// A variable of ours, and those of the original systems that are read where it is absent.
struct Variable {
  const char* name;
  std::array<const char*, 2> originals;
};
constexpr Variable kDestination = {"SLUICE_LOG_DEST", {"POPART_LOG_DEST", nullptr}};
constexpr Variable kLevels = {"SLUICE_LOG_LEVEL", {"POPTORCH_LOG_LEVEL", "POPART_LOG_LEVEL"}};
constexpr Variable kConfig = {"SLUICE_LOG_CONFIG", {"POPART_LOG_CONFIG", nullptr}};

struct Found {
  const char* name = nullptr;  ///< of the variable that is set; null: none is
  std::string value;
};

Found find(const Variable& variable) {
  const auto valueOf = [](const char* name) {
    const char* value = name == nullptr ? nullptr : std::getenv(name);
    return value == nullptr || *value == '\0' ? nullptr : value;
  };
  for (const char* name : {variable.name, variable.originals[0], variable.originals[1]}) {
    if (const char* value = valueOf(name)) {
      return {name, value};
    }
  }
  return {};
}

std::shared_ptr<spdlog::logger> makeSink(const std::string& where) {
  if (where == "stderr") {
    return std::make_shared<spdlog::logger>("sluice",
                                            std::make_shared<spdlog::sinks::stderr_sink_mt>());
  }
  if (where == "stdout") {
    return std::make_shared<spdlog::logger>("sluice",
                                            std::make_shared<spdlog::sinks::stdout_sink_mt>());
  }
  try {
    return std::make_shared<spdlog::logger>(
        "sluice", std::make_shared<spdlog::sinks::basic_file_sink_mt>(where));
  } catch (const spdlog::spdlog_ex& error) {  // whoever logs first would get it
    auto fallback = makeSink("stderr");
    fallback->warn("SLUICE_LOG_DEST ignored: {}", error.what());
    return fallback;
  }
}

/// The one piece of process-wide state: where log lines go and which are wanted.
struct Settings {
  std::mutex mutex;  // guards levels and fallback
  std::map<std::string, Level, std::less<>> levels;
  Level fallback = kDefaultLevel;
  std::shared_ptr<spdlog::logger> sink;
  bool isChosen = false;  // the environment says where lines go

  Settings() {
    const Found destination = find(kDestination);
    isChosen = destination.name != nullptr;
    sink = makeSink(isChosen ? destination.value : "stderr");
    sink->set_pattern("[%T.%e] [sluice] %v");
    sink->set_level(spdlog::level::trace);
    sink->flush_on(spdlog::level::warn);
  }
};

Settings& settings() {
  static Settings instance;
  return instance;
}

void applyLevels(Settings& target, std::string_view text) {
  std::map<std::string, Level, std::less<>> levels;
  Level fallback = kDefaultLevel;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos) {
      fallback = parseLevel(item);
    } else if (item.substr(0, colon) == "*") {
      fallback = parseLevel(item.substr(colon + 1));
    } else {
      levels.insert_or_assign(std::string(item.substr(0, colon)),
                              parseLevel(item.substr(colon + 1)));
    }
  }
  const std::scoped_lock lock(target.mutex);
  target.levels = std::move(levels);
  target.fallback = fallback;
}

/// {"module": "LEVEL", ...}, or the path of a file with that. "*" is every other module.
void applyConfig(Settings& target, const std::string& value) {
  const bool isText = value.find_first_not_of(" \t\n") != std::string::npos &&
                      value[value.find_first_not_of(" \t\n")] == '{';
  constexpr std::uint64_t kMostBytes = 1 << 20;
  const auto json = nlohmann::json::parse(
      isText ? value : readFile(value, kMostBytes), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    raise<ConfigFileError>("expected JSON like {{\"session\": \"DEBUG\"}}, got '{}'", value);
  }
  std::map<std::string, Level, std::less<>> levels;
  std::optional<Level> fallback;
  for (const auto& [module, level] : json.items()) {
    const Level parsed = parseLevel(level.is_string() ? level.get<std::string>() : level.dump());
    if (module == "*") {
      fallback = parsed;
    } else {
      levels.insert_or_assign(module, parsed);
    }
  }
  const std::scoped_lock lock(target.mutex);
  for (const auto& [module, level] : levels) {
    target.levels.insert_or_assign(module, level);
  }
  target.fallback = fallback.value_or(target.fallback);
}

/// Applies what a variable says; a wrong value is ignored with a warning.
template <class Apply>
void applyVariable(const Variable& variable, const Apply& apply) {
  const Found found = find(variable);
  if (found.name == nullptr) {
    return;
  }
  try {
    apply(settings(), found.value);
  } catch (const Error& error) {
    settings().sink->warn("{} ignored: {}", found.name, error.message());
  }
}

void writeLine(std::string_view module, Level level, std::string_view message);

/// Says which variables of other systems were read in place of ours.
void sayOriginals() {
  for (const Variable& variable : {kLevels, kConfig, kDestination}) {
    if (const Found found = find(variable);
        found.name != nullptr && std::string_view(found.name) != variable.name) {
      writeLine(
          "environment",
          Level::Info,
          fmt::format("{} is set and read as {}: {}", found.name, variable.name, found.value));
    }
  }
}

Settings& configured() {
  static const bool once = [] {
    applyVariable(kLevels, applyLevels);
    applyVariable(kConfig, applyConfig);
    return true;
  }();
  static_cast<void>(once);
  return settings();
}

}  // namespace

Level parseLevel(std::string_view text) {
  std::string lower;
  for (const char c : text) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  static const std::map<std::string, Level, std::less<>> kNames = {{"trace", Level::Trace},
                                                                   {"trace_all", Level::Trace},
                                                                   {"debug", Level::Debug},
                                                                   {"info", Level::Info},
                                                                   {"warn", Level::Warn},
                                                                   {"err", Level::Error},
                                                                   {"error", Level::Error},
                                                                   {"off", Level::Off},
                                                                   {"0", Level::Trace},
                                                                   {"1", Level::Debug},
                                                                   {"2", Level::Info},
                                                                   {"3", Level::Warn},
                                                                   {"4", Level::Error},
                                                                   {"6", Level::Off}};
  const auto found = kNames.find(lower);
  if (found == kNames.end()) {
    raise<InvalidArgument>(
        "log level '{}' is unknown; levels are OFF, ERR, WARN, INFO, DEBUG, TRACE or 6, 4, 3, 2, "
        "1, 0",
        text);
  }
  return found->second;
}

void setLevels(std::string_view text) {
  applyLevels(configured(), text);
}

void setLevels(int level) {
  setLevels(std::to_string(level));
}

bool enabled(std::string_view module, Level level) {
  Settings& current = configured();
  const std::scoped_lock lock(current.mutex);
  const auto found = current.levels.find(module);
  return level >= (found == current.levels.end() ? current.fallback : found->second);
}

void write(std::string_view module, Level level, std::string_view message) {
  static std::once_flag said;
  std::call_once(said, [] {
    configured();
    sayOriginals();
  });
  writeLine(module, level, message);
}

namespace {

void writeLine(std::string_view module, Level level, std::string_view message) {
  if (!enabled(module, level)) {
    return;
  }
  static constexpr const char* kLabels[] = {"trace", "debug", "info", "warning", "error"};
  const char* const label = kLabels[static_cast<int>(level)];
  if (const Console taken = console(); taken.write && !settings().isChosen) {
    taken.write(fmt::format("[{:%H:%M:%S}] [sluice] {} {}: {}\n",
                            fmt::localtime(std::time(nullptr)),
                            label,
                            module,
                            message));
    return;
  }
  configured().sink->log(level >= Level::Warn ? spdlog::level::warn : spdlog::level::info,
                         "{} {}: {}",
                         label,
                         module,
                         message);
}

}  // namespace
}  // namespace sluice::log
