// sluice completion: the words that a shell offers, from the commands themselves.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands.h"

namespace sluice::cli {
namespace {

std::vector<const CLI::App*> commandsOf(const CLI::App& app) {
  // Those without a group are hidden.
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

/// The long names of the options of a command and of its own commands.
std::vector<std::string> optionsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  for (const CLI::App* below : commandsOf(command)) {
    for (std::string& name : optionsOf(*below)) {
      if (std::ranges::find(names, name) == names.end()) {
        names.push_back(std::move(name));
      }
    }
  }
  return names;
}

/// The names of the commands that a command has itself.
std::vector<std::string> namesOfCommands(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* each : commandsOf(command)) {
    names.push_back(each->get_name());
  }
  return names;
}

/// Text of a zsh description: no quotes, brackets or colons.
std::string described(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    plain += c == '\'' || c == '[' || c == ']' || c == ':' ? ' ' : c;
  }
  return plain;
}

constexpr std::string_view kBashTail = R"sh(  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  elif [[ $COMP_CWORD -eq 2 && -n $commands ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$word"))
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _sluice sluice
)sh";

constexpr std::string_view kZshCommands = R"sh(  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  if [[ $words[CURRENT] != -* ]]; then
    case $CURRENT:$words[2] in
)sh";

constexpr std::string_view kZshOptions = R"sh(      *) _files ;;
    esac
    return
  fi
  case $words[2] in
)sh";

std::string bash(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* command : commandsOf(app)) {
    cases += fmt::format("    {}) words=\"{}\" commands=\"{}\" ;;\n",
                         command->get_name(),
                         fmt::join(optionsOf(*command), " "),
                         fmt::join(namesOfCommands(*command), " "));
  }
  return fmt::format(
      "# bash completion of sluice: eval \"$(sluice completion bash)\"\n"
      "_sluice() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} words=\"\" commands=\"\"\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"{} --help --version\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n"
      "{}{}",
      fmt::join(namesOfCommands(app), " "),
      cases,
      kBashTail);
}

std::string zsh(const CLI::App& app) {
  std::string names;
  std::string below;
  std::string cases;
  for (const CLI::App* command : commandsOf(app)) {
    if (const std::vector<std::string> own = namesOfCommands(*command); !own.empty()) {
      below +=
          fmt::format("      3:{}) compadd -- {} ;;\n", command->get_name(), fmt::join(own, " "));
    }
    names +=
        fmt::format("    '{}:{}'\n", command->get_name(), described(command->get_description()));
    std::string options;
    for (const std::string& option : optionsOf(*command)) {
      options += fmt::format(" '{}'", option);
    }
    cases += fmt::format("    {}) compadd --{} ;;\n", command->get_name(), options);
  }
  return fmt::format(
      "#compdef sluice\n"
      "# zsh completion of sluice: a file _sluice in a folder of $fpath\n"
      "_sluice() {{\n"
      "  local -a commands=(\n"
      "{}{}{}{}{}  esac\n}}\n_sluice \"$@\"\n",
      names,
      kZshCommands,
      below,
      kZshOptions,
      cases);
}

}  // namespace

void addCompletion(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("completion", "Print what a shell needs to complete commands and options");
  command->footer("Example, in ~/.bashrc:\n  eval \"$(sluice completion bash)\"");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  command->callback([&app, &action, shell] {
    action = [&app, shell] {
      fmt::print("{}", *shell == "bash" ? bash(app) : zsh(app));
      return 0;
    };
  });
}

}  // namespace sluice::cli
