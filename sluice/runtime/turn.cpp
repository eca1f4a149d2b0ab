#include "sluice/runtime/turn.h"

#include <algorithm>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/base/wait_watch.h"

namespace sluice::runtime {
namespace {

// Only what a thread calls knows its mark.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
thread_local std::span<const Turn::Mark> currentWork;

std::uint64_t newTenure() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

Turn::Work::Work(std::span<const Mark> marks) : before_(currentWork) {
  currentWork = marks;
}

Turn::Work::~Work() {
  currentWork = before_;
}

std::span<const Turn::Mark> Turn::Work::current() {
  return currentWork;
}

std::vector<Turn::Mark> Turn::Work::handedOn() {
  std::vector<Mark> marks;
  for (const Mark& mark : currentWork) {
    if (mark.tenure != 0) {
      marks.push_back(mark);
    } else if (mark.turn != nullptr) {
      const std::scoped_lock lock(mark.turn->mutex_);
      if (mark.turn->depth_ > 0) {
        marks.push_back({mark.turn, mark.turn->tenure_});
      }
    }
  }
  return marks;
}

Turn::Hold::Hold(std::shared_ptr<Turn> turn, Kind kind, const void* caller)
    : turn_(std::move(turn)), kind_(kind) {
  turn_->take(kind, caller);
}

Turn::Hold::Hold(std::shared_ptr<Turn> turn, const void* caller)
    : Hold(std::move(turn), Kind::Call, caller) {}

Turn::Hold Turn::Hold::scope(std::shared_ptr<Turn> turn) {
  return {std::move(turn), Kind::Scope, nullptr};
}

Turn::Hold::~Hold() {
  if (turn_) {
    turn_->give(kind_);
  }
}

bool Turn::Hold::isOnly() const {
  const std::scoped_lock lock(turn_->mutex_);
  return turn_->depth_ == 1;
}

Turn::Baton::~Baton() {
  if (turn_) {
    turn_->give(Hold::Kind::Call);
  }
}

Turn::Hold Turn::Baton::takeOn() {
  const std::shared_ptr<Turn> turn = std::move(turn_);
  {
    const std::scoped_lock lock(turn->mutex_);
    turn->owner_ = std::this_thread::get_id();
  }
  Hold hold(turn);               // the second time
  turn->give(Hold::Kind::Call);  // the first
  return hold;
}

std::shared_ptr<Turn::Baton> Turn::handOver(Hold hold) {
  // Before anything moves: who cannot hand it over still gives it back.
  SLUICE_CHECK(hold.isOnly() && hold.kind_ == Hold::Kind::Call,
               "a turn that is held more than once is handed over");
  std::shared_ptr<Baton> baton(new Baton(nullptr));
  baton->turn_ = std::move(hold.turn_);
  const std::scoped_lock lock(baton->turn_->mutex_);
  baton->turn_->owner_ = {};
  return baton;
}

bool Turn::isWaitingForThisThread() const {
  if (currentWork.empty()) {
    return false;
  }
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(currentWork, [&](const Mark& mark) {
    return mark.turn == this && mark.owner != std::this_thread::get_id() &&
           (mark.tenure == 0 || (depth_ > 0 && mark.tenure == tenure_));
  });
}

void Turn::requireOutside() const {
  if (isWaitingForThisThread()) {
    raise<InvalidArgument>(
        "a function that a running step calls (a host function, a feed, a sink, a signal handler), "
        "or the capture of a model, uses that model, or one that shares its state: the step waits "
        "for the function, so the function cannot wait for the step; use the model after the step");
  }
}

void Turn::take(Hold::Kind kind, const void* caller) {
  requireOutside();
  std::unique_lock lock(mutex_);
  if (depth_ == 0 || owner_ != std::this_thread::get_id()) {
    const std::uint64_t number = next_++;
    waitWatched(
        changed_,
        lock,
        [&] { return serving_ == number && depth_ == 0; },
        [this] {
          const Mark mark{this, 0};  // who looks around cannot get the turn before this call has it
          const Work work({&mark, 1});
          WaitWatch::look();
        });
    owner_ = std::this_thread::get_id();
    tenure_ = newTenure();
  }
  ++depth_;
  if (kind == Hold::Kind::Call && calls_++ == 0) {
    caller_ = caller;
  }
}

bool Turn::cancel(const void* caller) {
  const std::scoped_lock lock(mutex_);
  if (calls_ == 0 || caller_ != caller) {
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

void Turn::give(Hold::Kind kind) {
  {
    const std::scoped_lock lock(mutex_);
    if (kind == Hold::Kind::Call && --calls_ == 0) {
      caller_ = nullptr;
      cancelled_.store(false);
    }
    if (--depth_ > 0) {
      return;
    }
    owner_ = {};
    ++serving_;
  }
  changed_.notify_all();
}

}  // namespace sluice::runtime
