#include "sluice/base/log.h"

#include <cctype>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <fmt/chrono.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "sluice/base/console.h"
#include "sluice/base/error.h"

namespace sluice::log {
namespace {

constexpr Level kDefaultLevel = Level::Info;
constexpr const char* kDestination = "SLUICE_LOG_DEST";

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

  Settings() {
    const char* destination = std::getenv(kDestination);
    sink = makeSink(destination != nullptr && *destination != '\0' ? destination : "stderr");
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

Settings& configured() {
  static const bool once = [] {
    if (const char* text = std::getenv("SLUICE_LOG_LEVEL"); text != nullptr) {
      try {
        applyLevels(settings(), text);
      } catch (const Error& error) {
        settings().sink->warn("SLUICE_LOG_LEVEL ignored: {}", error.message());
      }
    }
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
  if (!enabled(module, level)) {
    return;
  }
  static constexpr const char* kLabels[] = {"trace", "debug", "info", "warning", "error"};
  const char* const label = kLabels[static_cast<int>(level)];
  if (const Console taken = console(); taken.write && std::getenv(kDestination) == nullptr) {
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

}  // namespace sluice::log
