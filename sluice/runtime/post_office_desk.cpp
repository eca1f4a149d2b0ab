// Who looks after the messages of a process, and when.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sluice/base/prompt_thread.h"
#include "sluice/runtime/post_office.h"

namespace sluice::runtime {
namespace {

/// How long who is at the desk sleeps while a message is under way, or may come from somebody who
/// cannot ring: the longer nothing has happened, the longer, so that a wait grows by an eighth at
/// most and takes little time from kernels; and where all can ring.
constexpr std::chrono::microseconds kNap{20};
constexpr std::chrono::microseconds kLongNap{500};
constexpr int kNapsOfAWait = 8;
constexpr std::chrono::microseconds kSleep{5000};
/// MPI tells what came during the call before.
constexpr int kAsks = 3;
/// After such a time without anybody at the desk the thread of the office sits down.
constexpr std::chrono::milliseconds kAway{10};

/// Counts one more of those that do something, while it lives.
class OneMore {
 public:
  explicit OneMore(std::atomic<int>& count) : count_(count) { count_.fetch_add(1); }
  OneMore(const OneMore&) = delete;
  OneMore& operator=(const OneMore&) = delete;
  ~OneMore() { count_.fetch_sub(1); }

 private:
  std::atomic<int>& count_;
};

/// Names the calling thread as the one that looks, while it lives.
class Looking {
 public:
  explicit Looking(std::atomic<std::thread::id>& thread) : thread_(thread) {
    thread_.store(std::this_thread::get_id());
  }
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;
  ~Looking() { thread_.store({}); }

 private:
  std::atomic<std::thread::id>& thread_;
};

}  // namespace

bool PostOffice::await(const Inbox::Key& key, Milliseconds atMost) {
  const Clock::time_point end = Clock::now() + atMost;
  bool came = false;
  {
    const OneMore waits(waiting_);
    Inbox::Wait wait(inbox_, key);
    const auto isOver = [&] { return wait.isOver() || Clock::now() >= end; };
    while (!isOver()) {
      if (const std::unique_lock desk(desk_, std::try_to_lock); desk) {
        serveUntil(isOver);
        continue;
      }
      if (officeSits_.load() > 0) {  // it gives its place to those who wait
        bell_.ring(bell_.address());
      }
      wait.sleepUntil(end);
    }
    came = wait.isOver();
  }
  inbox_.callOne();  // to the desk, which may be free now
  return came;
}

MessageBytes PostOffice::take(const Inbox::Key& key, Milliseconds patience) {
  await(key, patience);
  return inbox_.fetch(key, rank_, patience);
}

/// Whether nobody is at the desk or about to sit there.
bool PostOffice::isDeserted() const {
  return attended_.load() == 0 && waiting_.load() == 0;
}

void PostOffice::lookNow() {
  bool calls = false;
  {
    const std::scoped_lock lock(look_);
    delivered_ = false;
    do {
      look();
    } while (hasPosted());
    calls = delivered_ || carrier_.isMoving();
  }
  if (calls) {
    wakeDesk();
  }
}

/// For messages that have come, or that only move on if somebody looks after them.
void PostOffice::wakeDesk() {
  bool rings = false;
  {
    const std::scoped_lock lock(mutex_);
    called_ = true;
    rings = std::exchange(asleep_, false);
    if (isDeserted()) {
      changed_.notify_all();
    }
  }
  if (rings) {
    bell_.ring(bell_.address());
  }
}

std::chrono::microseconds PostOffice::napAfter(Clock::duration idle) const {
  bool allRing = true;
  for (std::int32_t r = 0; r < size_; ++r) {
    allRing = allRing && (r == rank_ || peers_[static_cast<std::size_t>(r)].bell.has_value());
  }
  if (allRing && !carrier_.isMoving()) {
    return kSleep;
  }
  const auto share = std::chrono::duration_cast<std::chrono::microseconds>(idle / kNapsOfAWait);
  return std::clamp(share, kNap, kLongNap);
}

/// Says whether messages have come or have left. With `look_`.
bool PostOffice::look() {
  const Looking looking(looking_);
  sendPosted();
  const bool moved = carrier_.move([this](Mail mail) { deliver(std::move(mail)); });
  noteIdle();
  watchPeers(Clock::now());
  return moved;
}

/// Whether to sleep; with the desk. A ring is heard after it, too.
bool PostOffice::mayNap(int asks) {
  const std::scoped_lock lock(mutex_);
  asleep_ = asks >= kAsks && posted_.empty() && !called_;
  called_ = false;
  return asleep_;
}

/// With the desk.
void PostOffice::serveUntil(FunctionRef<bool()> isOver) {
  const OneMore attends(attended_);
  int asks = 0;
  Clock::time_point moved = Clock::now();
  while (!isOver()) {
    std::chrono::microseconds nap{0};
    {
      const std::scoped_lock lock(look_);
      const bool moves = look();
      asks = moves ? 0 : asks + 1;
      moved = moves ? Clock::now() : moved;
      nap = napAfter(Clock::now() - moved);
    }
    if (mayNap(asks) && !isOver() && bell_.sleep(nap)) {
      asks = 0;
    }
  }
  const std::scoped_lock lock(mutex_);
  asleep_ = false;
}

/// In the thread of the office, unless another one is at the desk.
void PostOffice::sitDown() {
  if (const std::unique_lock desk(desk_, std::try_to_lock); desk) {
    const OneMore sits(officeSits_);
    lookNow();
    serveUntil([&] { return stop_.load() || waiting_.load() > 0; });
  }
}

void PostOffice::run() {
  becomePrompt();
  while (!stop_.load()) {
    try {
      sitDown();
    } catch (const std::exception& error) {  // nobody else would hear of it
      const std::scoped_lock lock(look_);
      const Looking looking(looking_);  // what it tells others is sent later, in a look of its own
      fail(fmt::format("rank {} cannot look after its messages: {}", rank_, error.what()));
    }
    inbox_.callOne();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kAway, [&] { return stop_.load() || (called_ && isDeserted()); });
  }
}

}  // namespace sluice::runtime
