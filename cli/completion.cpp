// sluice completion: the words that a shell offers, from the commands themselves.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands.h"

namespace sluice::cli {
namespace {

/// The long and short names of a command's options.
std::vector<std::string> optionsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<const CLI::App*> commandsOf(const CLI::App& app) {
  // Those without a group are hidden.
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
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
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _sluice sluice
)sh";

constexpr std::string_view kZshMiddle = R"sh(  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  if [[ $words[CURRENT] != -* ]]; then
    _files
    return
  fi
  case $words[2] in
)sh";

std::string bash(const CLI::App& app) {
  std::vector<std::string> names;
  std::string cases;
  for (const CLI::App* command : commandsOf(app)) {
    names.push_back(command->get_name());
    cases += fmt::format(
        "    {}) words=\"{}\" ;;\n", command->get_name(), fmt::join(optionsOf(*command), " "));
  }
  return fmt::format(
      "# bash completion of sluice: eval \"$(sluice completion bash)\"\n"
      "_sluice() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} words=\"\"\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"{} --help --version\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n"
      "{}{}",
      fmt::join(names, " "),
      cases,
      kBashTail);
}

std::string zsh(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : commandsOf(app)) {
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
      "{}{}{}  esac\n}}\n_sluice \"$@\"\n",
      names,
      kZshMiddle,
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
