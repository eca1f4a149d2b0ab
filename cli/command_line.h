// What the programs of this project share: exit codes, errors as one line, numbers with limits.
// `sluice` and the examples use it.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace sluice::cli {

// Exit codes; 0 is success.
inline constexpr int kFailed = 1;      ///< the input or the machine is at fault
inline constexpr int kWrongUsage = 2;  ///< the command line is at fault
/// Of a run that ended after a signal, as shells have it: 130 after Ctrl-C, 143 after SIGTERM.
constexpr int exitCodeOf(int signal) {
  return signal == 0 ? 0 : 128 + signal;
}

/// Throws FileError if something that was printed is lost.
void requireWritten();

/// Parses the command line and runs the body, whose exit code it returns. `--help` ends with the
/// exit codes. An exception becomes a line on standard error: of CLI11, also in the body, it is
/// wrong usage, any other a failure.
int runProgram(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

/// How devices are named, for people.
inline constexpr std::string_view kDeviceForm =
    "kind[@target][:index][*shares],... such as cpu, far*3, sim@ipu2 or cpu,far";

/// Adds --device, which `Options::device` takes and whose default is no text.
void addDeviceOption(CLI::App& app, std::string& names);

/// Adds --profile and --profile-dir to an example: runProgram then asks for the profiles of all its
/// models, as the variable SLUICE_PROFILE does, and prints the paths of the reports.
void addProfileOptions(CLI::App& app);

/// Throws Error if the loss is not finite: training on would only spread it.
void requireFiniteLoss(double loss, std::int64_t updates);

/// Throws CLI::ValidationError, naming the option, unless the product of a size is at most `most`.
void requireAtMost(std::string_view option,
                   std::string_view what,
                   std::initializer_list<std::int64_t> factors,
                   std::int64_t most);

/// Values of symbolic dimensions from texts NAME=NUMBER. Throws CLI::ValidationError.
std::map<std::string, std::int64_t, std::less<>> readDims(const std::vector<std::string>& texts);

namespace detail {
/// What is wrong with a text that should be a number; long texts are cut.
std::string numberProblem(std::string_view expected, std::string_view text, bool tooLarge);
}  // namespace detail

/// For Option::transform: a whole number, decimal, from `least` to `most`.
template <std::integral Number>
CLI::Validator wholeNumber(Number least, Number most = std::numeric_limits<Number>::max()) {
  const std::string range = most == std::numeric_limits<Number>::max()
                                ? fmt::format("at least {}", least)
                                : fmt::format("{} to {}", least, most);
  const auto read = [=](std::string& text) -> std::string {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool large = error == std::errc::result_out_of_range;
    if ((error != std::errc() && !large) || end != text.data() + text.size() || large ||
        value < least || value > most) {
      const bool outside = end == text.data() + text.size() && (large || error == std::errc());
      return detail::numberProblem(fmt::format("a whole number, {}", range), text, outside);
    }
    text = fmt::format("{}", value);  // "010" is ten
    return "";
  };
  return {read, range};
}

/// For Option::transform: a finite number from `least` on, or above it, to `most`.
enum class Bound : std::uint8_t { Included, Excluded };
inline CLI::Validator realNumber(double least,
                                 Bound bound = Bound::Included,
                                 double most = std::numeric_limits<double>::max()) {
  const std::string range =
      fmt::format("{} {}", bound == Bound::Included ? "at least" : "above", least) +
      (most == std::numeric_limits<double>::max() ? "" : fmt::format(" and at most {}", most));
  const auto read = [=](std::string& text) -> std::string {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = end == text.data() + text.size();
    if (error != std::errc() || !whole || !std::isfinite(value) || value < least || value > most ||
        (bound == Bound::Excluded && value == least)) {
      const bool outside =
          whole && (error == std::errc() || error == std::errc::result_out_of_range);
      return detail::numberProblem(fmt::format("a number, {}", range), text, outside);
    }
    return "";
  };
  return {read, range};
}

}  // namespace sluice::cli
