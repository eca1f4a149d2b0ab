#include "cli/terminal.h"

#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

namespace sluice::cli {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string_view code(Style style) {
  switch (style) {
    case Style::Heading:
      return "1";
    case Style::Error:
      return "1;31";
    case Style::Faint:
      break;
  }
  return "2";
}

}  // namespace

bool hasColours(std::FILE* stream) {
  return variable("NO_COLOR").empty() && variable("TERM") != "dumb" &&
         ::isatty(::fileno(stream)) != 0;
}

std::string styled(std::string_view text, Style style, std::FILE* stream) {
  return hasColours(stream) ? fmt::format("\x1b[{}m{}\x1b[0m", code(style), text)
                            : std::string(text);
}

}  // namespace sluice::cli
