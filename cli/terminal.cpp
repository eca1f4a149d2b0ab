#include "cli/terminal.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace sluice::cli {
namespace {

constexpr std::int32_t kLeastColumns = 20;

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
    case Style::Blue:
      return "34";
    case Style::Yellow:
      return "33";
    case Style::Green:
      return "32";
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

std::int32_t columnsOf(std::FILE* stream, std::int32_t otherwise) {
  winsize size{};
  const bool known = ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? std::max<std::int32_t>(size.ws_col, kLeastColumns) : otherwise;
}

void tell(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

std::string styled(std::string_view text, Style style, std::FILE* stream) {
  return hasColours(stream) ? fmt::format("\x1b[{}m{}\x1b[0m", code(style), text)
                            : std::string(text);
}

}  // namespace sluice::cli
