#include "sluice/runtime/turn.h"

#include <algorithm>
#include <utility>

#include "sluice/base/error.h"

namespace sluice::runtime {
namespace {

// Only what a thread calls knows its mark.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
thread_local std::span<const Turn* const> currentWork;

}  // namespace

Turn::Work::Work(std::span<const Turn* const> turns) : before_(currentWork) {
  currentWork = turns;
}

Turn::Work::~Work() {
  currentWork = before_;
}

std::span<const Turn* const> Turn::Work::current() {
  return currentWork;
}

Turn::Hold::Hold(std::shared_ptr<Turn> turn, const void* caller) : turn_(std::move(turn)) {
  turn_->take(caller);
}

Turn::Hold::~Hold() {
  if (turn_) {
    turn_->give();
  }
}

Turn::Baton::~Baton() {
  if (turn_) {
    turn_->give();
  }
}

Turn::Hold Turn::Baton::takeOn() {
  const std::shared_ptr<Turn> turn = std::move(turn_);
  {
    const std::scoped_lock lock(turn->mutex_);
    turn->owner_ = std::this_thread::get_id();
  }
  Hold hold(turn);  // the second time
  turn->give();     // the first
  return hold;
}

std::shared_ptr<Turn::Baton> Turn::handOver(Hold hold) {
  const std::shared_ptr<Turn> turn = std::move(hold.turn_);
  const std::scoped_lock lock(turn->mutex_);
  SLUICE_CHECK(turn->owner_ == std::this_thread::get_id() && turn->depth_ == 1,
               "a turn that is held {} times is handed over",
               turn->depth_);
  turn->owner_ = {};
  return std::shared_ptr<Baton>(new Baton(turn));
}

void Turn::requireOutside() const {
  if (std::ranges::find(currentWork, this) != currentWork.end()) {
    raise<InvalidArgument>(
        "a function that a running step calls (a host function, a feed, a sink) uses the model "
        "that runs the step, or one that shares its state: the step waits for the function, so "
        "the function cannot wait for the step; use the model after the step");
  }
}

void Turn::take(const void* caller) {
  requireOutside();
  std::unique_lock lock(mutex_);
  if (depth_ > 0 && owner_ == std::this_thread::get_id()) {
    ++depth_;
    return;
  }
  const std::uint64_t number = next_++;
  changed_.wait(lock, [&] { return serving_ == number && depth_ == 0; });
  owner_ = std::this_thread::get_id();
  depth_ = 1;
  caller_ = caller;
}

bool Turn::cancel(const void* caller) {
  const std::scoped_lock lock(mutex_);
  if (depth_ == 0 || caller_ != caller) {
    return false;
  }
  cancelled_.store(true);
  if (stop_) {
    stop_();
  }
  return true;
}

void Turn::onCancel(std::function<void()> stop) {
  const std::scoped_lock lock(mutex_);
  stop_ = std::move(stop);
}

std::uint64_t Turn::waiting() const {
  const std::scoped_lock lock(mutex_);
  return next_ - serving_ - (depth_ > 0 ? 1 : 0);
}

void Turn::give() {
  {
    const std::scoped_lock lock(mutex_);
    if (--depth_ > 0) {
      return;
    }
    owner_ = {};
    caller_ = nullptr;
    cancelled_.store(false);
    ++serving_;
  }
  changed_.notify_all();
}

}  // namespace sluice::runtime
