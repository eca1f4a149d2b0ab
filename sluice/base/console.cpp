#include "sluice/base/console.h"

#include <mutex>
#include <utility>

namespace sluice {
namespace {

struct Current {
  std::mutex mutex;
  Console console;
};

Current& current() {
  static Current instance;
  return instance;
}

}  // namespace

void setConsole(Console console) {
  const std::scoped_lock lock(current().mutex);
  current().console = std::move(console);
}

Console console() {
  const std::scoped_lock lock(current().mutex);
  return current().console;
}

}  // namespace sluice
