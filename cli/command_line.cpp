#include "cli/command_line.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <new>
#include <vector>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/terminal.h"
#include "sluice/base/error.h"
#include "sluice/base/near_names.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kExitCodes =
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 after Ctrl-C, 143 after SIGTERM, "
    "129 after SIGHUP.";

/// Its options are addProfileOptions'; programs with a --profile of their own have it elsewhere.
constexpr const char* kProfileGroup = "Profiles";

/// Reports that models write because the command line asks for them.
class ProfiledRun {
 public:
  explicit ProfiledRun(const CLI::App& app) {
    const CLI::Option* asked = app.get_option_no_throw("--profile");
    if (asked == nullptr || asked->get_group() != kProfileGroup || asked->empty()) {
      return;
    }
    const CLI::Option* folder = app.get_option("--profile-dir");
    folder_ = folder->empty() ? "./profile" : folder->as<std::string>();
    const std::string text = nlohmann::json{{"directory", folder_}}.dump();
    ::setenv("SLUICE_PROFILE", text.c_str(), 1);
    before_ = reports();
  }

  void printReports() const {
    for (const auto& [path, written] : folder_.empty() ? Reports{} : reports()) {
      const auto known = before_.find(path);
      if (known == before_.end() || known->second != written) {
        fmt::print("Report: {}\n", path);
      }
    }
  }

 private:
  using Reports = std::map<std::string, std::filesystem::file_time_type>;

  /// When each report in the folder was written.
  Reports reports() const {
    Reports found;
    std::error_code none;  // no folder, no reports
    for (const auto& model : std::filesystem::directory_iterator(folder_, none)) {
      for (const auto& file : std::filesystem::directory_iterator(model.path(), none)) {
        if (file.path().filename().string().starts_with("report") &&
            file.path().extension() == ".html") {
          found[file.path().string()] = file.last_write_time();
        }
      }
    }
    return found;
  }

  std::string folder_;  // empty: nobody asked
  Reports before_;
};

/// ", did you mean '...'?" if one of the words is near.
std::string proposal(std::string_view given, const std::vector<std::string>& known) {
  const auto nearest = std::ranges::min_element(
      known, {}, [&](const std::string& name) { return editDistance(given, name); });
  const bool isNear =
      nearest != known.end() && editDistance(given, *nearest) <= nearest->size() / 3;
  return isNear ? fmt::format(", did you mean '{}'?", *nearest) : "";
}

/// Throws ParseError, with the commands that there are, if the first argument is meant to be one
/// and is none.
void requireKnownCommand(const CLI::App& app, int argc, const char* const* argv) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (commands.empty() || argc < 2 || *argv[1] == '-') {
    return;
  }
  const std::string_view given = argv[1];
  std::vector<std::string> known;
  for (const CLI::App* command : commands) {
    if (command->get_name() == given) {
      return;
    }
    if (!command->get_group().empty()) {  // hidden ones have none
      known.push_back(command->get_name());
    }
  }
  throw CLI::ParseError(fmt::format("unknown command '{}'{}; the commands are {}",
                                    given,
                                    proposal(given, known),
                                    fmt::join(known, ", ")),
                        CLI::ExitCodes::ExtrasError);
}

/// What to say of an option that a command does not have, with a similar one.
std::string unknownOption(const CLI::App& command, std::string_view text) {
  std::vector<std::string> known;
  for (const CLI::Option* each : command.get_options()) {
    for (const std::string& name : each->get_lnames()) {
      known.push_back("--" + name);
    }
  }
  const std::string_view given = text.substr(0, text.find('='));
  return fmt::format("unknown option '{}'{}", given, proposal(given, known));
}

/// What to say of arguments that nothing takes.
std::string describeExtras(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().back();
  }
  const std::vector<std::string> extras = command->remaining();
  const auto option = std::ranges::find_if(
      extras, [](const std::string& text) { return text.starts_with('-') && text.size() > 1; });
  if (option == extras.end()) {
    return fmt::format("unexpected argument '{}'", extras.empty() ? "" : extras.front());
  }
  return unknownOption(*command, *option);
}

/// The arguments without the `--` that may stand between the options of a command that starts
/// another program and that program. Throws ParseError if one of these options is unknown: it
/// would be taken for the program.
std::vector<std::string> withoutSeparator(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  const auto named = app.get_subcommands([&](const CLI::App* each) {
    return argc > 1 && each->get_name() == arguments[1] && each->get_prefix_command();
  });
  if (named.empty()) {
    return arguments;
  }
  const CLI::App* command = named.front();
  for (std::size_t i = 2; i < arguments.size() && arguments[i].starts_with('-'); ++i) {
    const std::string& text = arguments[i];
    if (text == "--") {
      arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    const bool isLong = text.starts_with("--");
    const CLI::Option* option =
        command->get_option_no_throw(isLong ? text.substr(0, text.find('=')) : text.substr(0, 2));
    if (option == nullptr) {
      throw CLI::ParseError(unknownOption(*command, text), CLI::ExitCodes::ExtrasError);
    }
    const bool hasValue = isLong ? text.find('=') != std::string::npos : text.size() > 2;
    i += option->get_items_expected_max() > 0 && !hasValue ? 1 : 0;
  }
  return arguments;
}

/// A file that a program opens must not get the number of a standard stream that is closed: what is
/// printed would land in it. Printing to such a stream fails as before.
void occupyClosedStreams() {
  int opened = 0;
  while (opened >= 0 && opened <= STDERR_FILENO) {
    opened = ::open("/dev/null", O_RDONLY);  // the lowest number that is free
  }
  if (opened >= 0) {
    ::close(opened);
  }
}

int guarded(CLI::App& app, const std::function<int()>& body) {
  try {
    return body();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  } catch (const std::bad_alloc&) {
    tell(fmt::format("{} the host has too little memory for this\n",
                     styled(app.get_name() + ":", Style::Error, stderr)));
  } catch (const std::exception& error) {
    tell(fmt::format("{} {}\n", styled(app.get_name() + ":", Style::Error, stderr), error.what()));
  }
  return kFailed;
}

}  // namespace

namespace detail {

std::string numberProblem(std::string_view expected, std::string_view text, bool tooLarge) {
  constexpr std::size_t kShown = 24;
  const std::string shown =
      text.size() <= kShown
          ? fmt::format("'{}'", text)
          : fmt::format("'{}...' ({} characters)", text.substr(0, kShown), text.size());
  return fmt::format("expected {}; {} is {}", expected, shown, tooLarge ? "out of range" : "none");
}

}  // namespace detail

int runProgram(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  occupyClosedStreams();
  const std::string footer = app.get_footer();
  app.footer(footer.empty() ? std::string(kExitCodes)
                            : fmt::format("{}\n\n{}", footer, kExitCodes));
  const int code = guarded(app, [&] {
    requireKnownCommand(app, argc, argv);
    std::vector<std::string> arguments = withoutSeparator(app, argc, argv);
    std::ranges::reverse(arguments);                                   // as the parser wants them
    arguments.resize(std::max<std::size_t>(arguments.size(), 1) - 1);  // without the own name
    try {
      app.parse(std::move(arguments));
    } catch (const CLI::ExtrasError&) {
      throw CLI::ParseError(describeExtras(app), CLI::ExitCodes::ExtrasError);
    }
    const ProfiledRun profiled(app);
    const int result = body();
    profiled.printReports();
    return result;
  });
  // A full disk shows itself only here if all that is printed fits into the buffer.
  return code != 0 ? code : guarded(app, [] {
    requireWritten();
    return 0;
  });
}

void requireWritten() {
  if (std::fflush(stdout) != 0) {
    raise<FileError>("cannot write to standard output: {}", std::strerror(errno));
  }
  if (std::ferror(stdout) != 0) {  // before, and errno may be of something else by now
    raise<FileError>("cannot write to standard output: it is closed or full");
  }
}

void addProfileOptions(CLI::App& app) {
  app.add_flag_callback(
         "--profile", [] {}, "Trace the first calls of each model and write reports about them")
      ->group(kProfileGroup);
  app.add_option_function<std::string>(
         "--profile-dir", [](const std::string&) {}, "Where traces and reports go  [./profile]")
      ->group(kProfileGroup);
}

void addDeviceOption(CLI::App& app, std::string& names) {
  app.add_option("--device",
                 names,
                 fmt::format("Devices that `sluice devices` lists: {}  [SLUICE_DEVICE, else cpu]",
                             kDeviceForm));
}

void requireFiniteLoss(double loss, std::int64_t updates) {
  if (!std::isfinite(loss)) {
    raise<Error>(
        "the loss is {} after {} updates: lower the learning rate, or let "
        "Model::findFirstNonFinite name the op",
        loss,
        updates);
  }
}

void requireAtMost(std::string_view option,
                   std::string_view what,
                   std::initializer_list<std::int64_t> factors,
                   std::int64_t most) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product) || product > most) {
      throw CLI::ValidationError(std::string(option),
                                 fmt::format("too large: {} are limited to {}", what, most));
    }
  }
}

std::map<std::string, std::int64_t, std::less<>> readDims(const std::vector<std::string>& texts) {
  std::map<std::string, std::int64_t, std::less<>> dims;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw CLI::ValidationError("--dim", fmt::format("expected NAME=NUMBER, got '{}'", text));
    }
    std::string number = text.substr(equals + 1);
    if (const std::string problem = wholeNumber<std::int64_t>(0)(number); !problem.empty()) {
      throw CLI::ValidationError("--dim", fmt::format("expected NAME=NUMBER: {}", problem));
    }
    dims.insert_or_assign(text.substr(0, equals), std::stoll(number));
  }
  return dims;
}

}  // namespace sluice::cli
