// The table of all settings: the name of each, how its arguments are applied, and how its value is
// printed. Options files, SLUICE_DEFAULT_OPTIONS and str() use it, so an option is a setter in
// options.h and a row in this table.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
/// The row with this name, in which the group may be capitalised ("Training.", "_Popart."). Throws
/// InvalidArgument, whose message proposes similar names and lists the known ones.
const Setting& settingOf(std::string_view name);
/// Calls the setter; throws InvalidArgument for arguments of other types or too many.
void apply(Options& options, std::string_view setter, std::span<const OptionValue> arguments);

/// The name of the row for popart().set. Its arguments are a name of PopART or of another row, and
/// the arguments of that row.
inline constexpr std::string_view kPopartSet = "popart.set";
void applyPopart(Options& options, Arguments& arguments);
/// PopART's names with the rows that they stand for, if the names or the values differ.
std::vector<std::pair<std::string_view, std::string_view>> popartNames();

}  // namespace sluice::detail
