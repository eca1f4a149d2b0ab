// The table of all settings: the name of each, how its arguments are applied, and how its value is
// printed. Options files, SLUICE_DEFAULT_OPTIONS and str() use it, so an option is a setter in
// options.h and a row in this table.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sluice/api/option_value.h"
#include "sluice/api/options.h"

namespace sluice::detail {

struct Setting {
  std::string_view name;  ///< "threads", "training.gradientAccumulation"
  void (*apply)(Options& options, Arguments& arguments);
  /// Prints the value in the form of the setter's arguments; null for a second setter of another
  /// row's value.
  std::string (*print)(const Options& options);
};

/// All settings, in the order in which they are printed.
std::span<const Setting> settings();
/// The row with this name, in which the group may be capitalised ("Training."). Throws
/// InvalidArgument, whose message lists the known names.
const Setting& settingOf(std::string_view name);
/// Calls the setter; throws InvalidArgument for arguments of other types or too many.
void apply(Options& options, std::string_view setter, std::span<const OptionValue> arguments);

}  // namespace sluice::detail
