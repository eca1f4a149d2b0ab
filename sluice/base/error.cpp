#include "sluice/base/error.h"

namespace sluice {
namespace {

/// Messages quote names and lines of files, which may hold anything: a NUL byte would end what()
/// early, and other control characters would act on the terminal.
std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): all kinds of errors take a text like this
Error::Error(std::string message, std::string_view type)
    : message_(printable(message)), type_(type) {
  compose();
}

void Error::at(std::string_view place) {
  if (!location_.empty()) {
    location_ += ", ";
  }
  location_ += printable(place);
  compose();
}

void Error::compose() {
  what_ = type_ + ": " + message_;
  if (!location_.empty()) {
    what_ += " (in " + location_ + ")";
  }
}

namespace detail {

void checkFailed(const char* condition, const char* file, int line, std::string message) {
  throw InternalError(fmt::format(
      "{} [check {} failed at {}:{}; please report this]", message, condition, file, line));
}

}  // namespace detail
}  // namespace sluice
