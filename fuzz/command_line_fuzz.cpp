// The command line: any arguments, one per line, are a command or an error of the parser. Commands
// that neither take long nor touch other files run, in an empty folder and without a word.
#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>

#include "cli/commands.h"
#include "fuzz/target.h"
#include "sluice/base/hash.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

std::vector<std::string> argumentsOf(std::string_view text) {
  std::vector<std::string> arguments;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    arguments.emplace_back(line.substr(0, line.find('\0')));  // where the system ends it
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return arguments;
}

bool isLargeNumber(std::string_view text) {
  constexpr std::ptrdiff_t kMostDigits = 2;
  std::ptrdiff_t digits = 0;
  for (const char c : text) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > kMostDigits) {
      return true;
    }
  }
  return false;
}

/// Whether the command is quick and stays in its folder.
bool mayRun(const std::vector<std::string>& arguments) {
  constexpr std::array kHarmless = {"cache", "completion", "ops", "schedule", "version"};
  constexpr std::size_t kMostLength = 200;
  return std::ranges::find(kHarmless, arguments[0]) != kHarmless.end() &&
         std::ranges::none_of(arguments, [](const std::string& argument) {
           return argument.find('/') != std::string::npos || argument.size() > kMostLength ||
                  isLargeNumber(argument);
         });
}

/// While it lives, output goes nowhere and the working folder is an empty one.
class Cell {
 public:
  Cell() : before_(std::filesystem::current_path()), output_(::dup(STDOUT_FILENO)) {
    static const int kNowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    std::fflush(stdout);
    ::dup2(kNowhere, STDOUT_FILENO);
    std::filesystem::current_path(folder_.path());
  }
  ~Cell() {
    std::fflush(stdout);
    ::dup2(output_, STDOUT_FILENO);
    ::close(output_);
    std::filesystem::current_path(before_);
  }
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;

 private:
  sluice::testing::TempFolder folder_;
  std::filesystem::path before_;
  int output_;
};

}  // namespace

SLUICE_FUZZ_TARGET(command_line) {
  constexpr std::size_t kMostArguments = 64;
  std::vector<std::string> arguments = argumentsOf(fuzz::textOf(data, size));
  if (arguments.empty() || arguments.size() > kMostArguments) {
    return;
  }
  // What is no command stands for one: all that is left of it would be the list of commands.
  const std::vector<std::string_view> known = cli::commandNames();
  if (std::ranges::find(known, arguments[0]) == known.end()) {
    arguments[0] = known[Hasher().add(arguments[0]).digest() % known.size()];
  }
  const bool runs = mayRun(arguments);
  CLI::App app("fuzz", "sluice");
  cli::Action action;
  cli::addCommands(app, action, arguments[0]);  // all of them would take most of the time
  fuzz::accepts([&] {
    try {
      std::ranges::reverse(arguments);  // as the parser takes them
      app.parse(arguments);
      if (runs && action) {
        const Cell cell;
        action();
      }
    } catch (const CLI::CallForHelp&) {
      fuzz::require(!app.help().empty(), "no help");
    } catch (const CLI::Error&) {  // wrong usage, with a message
    }
  });
}
