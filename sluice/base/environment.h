// Environment variables. Programs that were written for PopTorch, PopART or Poplar set theirs:
// where ours is absent, theirs is read, and a line in the log says so.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// The value of our variable; if it is not set or empty, that of the original one. The first use of
/// an original is logged. An empty `original` is not looked up.
std::optional<std::string> environmentValue(const char* ours, const char* original = "");

/// Whether "1", "true", "yes" or "on" was given rather than "0", "false", "no" or "off". Throws
/// InvalidArgument, naming the variable, for another text.
bool isOn(std::string_view value, std::string_view variable);

/// The same of the value of our variable, or of the original one; off if neither is set.
bool isSwitchedOn(const char* ours, const char* original = "");

}  // namespace sluice
