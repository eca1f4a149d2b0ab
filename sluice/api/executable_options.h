// The options of an executable: their text in its file, and which of them may change when it is
// loaded.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sluice/api/options.h"

namespace sluice {

/// A call of a setter, as Options::set takes it.
struct SetterCall {
  std::string setter;
  std::string arguments;
};

/// The calls that set every value that is not the default.
std::vector<SetterCall> setterCalls(const Options& options);
/// The options that such calls make, whatever the environment says. Throws InvalidArgument.
Options optionsOf(std::span<const SetterCall> calls);

/// Throws InvalidArgument, naming the setting and both values, if the options differ in what is
/// compiled into programs. `device` may differ: whoever calls this compares targets.
void requireSameCompiled(const Options& compiled, const Options& now);
/// The values that are compiled into programs, for keys of the cache.
std::string compiledSettings(const Options& options);

}  // namespace sluice
