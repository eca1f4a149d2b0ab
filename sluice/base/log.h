// Logs to stderr (or SLUICE_LOG_DEST), filtered per module by SLUICE_LOG_LEVEL, which is a level or
// a list such as "schedule:debug,*:warn", and then by SLUICE_LOG_CONFIG, which is JSON (or a file
// with it) such as {"schedule": "DEBUG"}. The variables of PopTorch and PopART are read where ours
// are absent. Success is quiet: at level info the library logs only what a user asked to see. Use:
// log::info("engine", "loaded {} in {} ms", name, ms).
#pragma once

#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace sluice::log {

enum class Level { Trace = 0, Debug = 1, Info = 2, Warn = 3, Error = 4, Off = 6 };

/// Parses "debug", "WARN", "err", "3" ...; throws InvalidArgument listing the levels.
Level parseLevel(std::string_view text);

/// Sets levels from text in the form of SLUICE_LOG_LEVEL; throws as parseLevel does.
void setLevels(std::string_view text);
/// Same as above, by number: 6 is off, 4 errors, 3 warnings, 2 info, 1 debug, 0 everything.
void setLevels(int level);

bool enabled(std::string_view module, Level level);
void write(std::string_view module, Level level, std::string_view message);

template <class... Args>
void debug(std::string_view module, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(module, Level::Debug)) {
    write(module, Level::Debug, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <class... Args>
void info(std::string_view module, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(module, Level::Info)) {
    write(module, Level::Info, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <class... Args>
void warn(std::string_view module, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(module, Level::Warn)) {
    write(module, Level::Warn, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace sluice::log
