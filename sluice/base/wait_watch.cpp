#include "sluice/base/wait_watch.h"

#include <utility>

namespace sluice {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): of the calling thread only
thread_local const WaitWatch* newest = nullptr;

}  // namespace

WaitWatch::WaitWatch(std::function<void()> look) : look_(std::move(look)), before_(newest) {
  newest = this;
}

WaitWatch::~WaitWatch() {
  newest = before_;
}

bool WaitWatch::isSet() {
  return newest != nullptr;
}

void WaitWatch::look() noexcept {
  if (newest != nullptr) {
    newest->look_();
  }
}

}  // namespace sluice
