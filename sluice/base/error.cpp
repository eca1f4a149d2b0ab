#include "sluice/base/error.h"

namespace sluice {

Error::Error(std::string message, std::string_view type)
    : message_(std::move(message)), type_(type) {
  compose();
}

void Error::at(std::string_view place) {
  if (!location_.empty()) {
    location_ += ", ";
  }
  location_ += place;
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
