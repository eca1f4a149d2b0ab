// The table of all settings: name, how arguments are applied, how the value is printed. Options
// files, SLUICE_DEFAULT_OPTIONS and str() go through it, so an option is a setter in options.h and
// a row here.
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
  /// The value in the form of the setter's arguments; null for a second way to set another row's.
  std::string (*print)(const Options& options);
};

/// In the order they are printed.
std::span<const Setting> settings();
/// The row of a name, where a group may be capitalised ("Training."). Throws InvalidArgument that
/// lists the known names.
const Setting& settingOf(std::string_view name);
/// Calls the setter; throws InvalidArgument for arguments of other types or too many.
void apply(Options& options, std::string_view setter, std::span<const OptionValue> arguments);

}  // namespace sluice::detail
