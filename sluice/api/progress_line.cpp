#include "sluice/api/progress_line.h"

#include <algorithm>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace sluice {
namespace {

constexpr std::size_t kLongestBar = 30;
constexpr std::size_t kShortestBar = 5;

std::string metricsText(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    const bool percentage = name.find("ccuracy") != std::string::npos;
    text += fmt::format("{}{}:{}",
                        text.empty() ? "" : " | ",
                        name,
                        percentage ? fmt::format("{:.2f}%", value) : fmt::format("{:.4f}", value));
  }
  return text;
}

/// Bytes of UTF-8 that go on with the character before them.
bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

}  // namespace

std::optional<std::size_t> terminalWidth(int descriptor) {
  if (isatty(descriptor) == 0) {
    return std::nullopt;
  }
  constexpr std::size_t kUsual = 80;
  winsize size{};
  const bool known = ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsual;
}

std::string_view cutTo(std::string_view text, std::size_t columns) {
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!continues(text[i]) && ++characters > columns) {
      return text.substr(0, i);
    }
  }
  return text;
}

std::string progressLine(const Progress& p, std::optional<std::size_t> columns) {
  const std::string of = p.steps == 0 ? "" : fmt::format("/{}", p.steps);
  std::string text = fmt::format("{}{} {:.1f}s  {}", p.step, of, p.seconds, metricsText(p.metrics));
  if (!columns) {
    return text;
  }
  const std::size_t most = *columns - std::min<std::size_t>(*columns, 1);  // a full line may wrap
  constexpr std::size_t kFrame = 3;                                        // "[] "
  const auto characters = static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return !continues(byte); }));
  if (characters + kFrame + kShortestBar > most) {
    return std::string(cutTo(text, most));
  }
  const std::size_t bar = std::min(kLongestBar, most - characters - kFrame);
  const std::size_t done =
      p.steps == 0 ? bar
                   : bar * static_cast<std::size_t>(p.step) / static_cast<std::size_t>(p.steps);
  return fmt::format("[{}{}] {}", std::string(done, '#'), std::string(bar - done, '.'), text);
}

}  // namespace sluice
