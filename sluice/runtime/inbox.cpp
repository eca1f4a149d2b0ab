#include "sluice/runtime/inbox.h"

#include "sluice/base/error.h"

namespace sluice::runtime {

Inbox::Wait::Wait(Inbox& inbox, const Key& key) : inbox_(inbox), key_(key) {
  const std::scoped_lock lock(inbox_.mutex_);
  place_ = inbox_.waits_.insert(inbox_.waits_.end(), this);
}

Inbox::Wait::~Wait() {
  const std::scoped_lock lock(inbox_.mutex_);
  inbox_.waits_.erase(place_);
}

bool Inbox::Wait::isOver() const {
  const std::scoped_lock lock(inbox_.mutex_);
  return inbox_.isOver(key_);
}

void Inbox::Wait::sleepUntil(Clock::time_point end) {
  std::unique_lock lock(inbox_.mutex_);
  woken_.wait_until(lock, end, [&] { return called_ || inbox_.isOver(key_); });
  called_ = false;
}

bool Inbox::isOver(const Key& key) const {
  return messages_.contains(key) || !reason_.empty() || left_.contains(key.from);
}

void Inbox::wakeAll() {
  for (Wait* const wait : waits_) {
    wait->woken_.notify_all();
  }
}

bool Inbox::callOne() {
  const std::scoped_lock lock(mutex_);
  for (Wait* const wait : waits_) {
    if (!isOver(wait->key_)) {
      wait->called_ = true;
      wait->woken_.notify_all();
      return true;
    }
  }
  return false;
}

void Inbox::deliver(const Key& key, MessageBytes bytes) {
  const std::scoped_lock lock(mutex_);
  messages_[key].push_back(std::move(bytes));
  for (Wait* const wait : waits_) {
    if (wait->key_ == key) {
      wait->woken_.notify_all();
    }
  }
}

bool Inbox::has(const Key& key) const {
  const std::scoped_lock lock(mutex_);
  return messages_.contains(key);
}

bool Inbox::await(const Key& key, std::chrono::milliseconds atMost) {
  const Clock::time_point end = Clock::now() + atMost;
  Wait wait(*this, key);
  while (!wait.isOver() && Clock::now() < end) {
    wait.sleepUntil(end);
  }
  return wait.isOver();
}

MessageBytes Inbox::take(const Key& key, std::int32_t me, std::chrono::milliseconds patience) {
  await(key, patience);
  return fetch(key, me, patience);
}

MessageBytes Inbox::fetch(const Key& key, std::int32_t me, std::chrono::milliseconds patience) {
  const std::scoped_lock lock(mutex_);
  if (!reason_.empty()) {
    raise<DeviceError>("the other owners of the program were told to stop: {}", reason_);
  }
  if (!isOver(key)) {
    raise<DeviceError>(
        "rank {} has waited {} s for rank {}, which lives and sends nothing: do all processes make "
        "the same calls? SLUICE_PEER_PATIENCE sets these seconds",
        me,
        patience.count() / 1000,
        key.from);
  }
  const auto found = messages_.find(key);
  if (found == messages_.end()) {
    raise<DeviceError>(
        "rank {} has ended, and rank {} waits for a message from it: all processes must make the "
        "same calls",
        key.from,
        me);
  }
  MessageBytes bytes = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) {
    messages_.erase(found);
  }
  return bytes;
}

void Inbox::interrupt(std::string_view reason) {
  const std::scoped_lock lock(mutex_);
  if (reason_.empty()) {
    reason_ = reason.empty() ? "no reason was given" : reason;
  }
  wakeAll();
}

bool Inbox::isInterrupted() const {
  const std::scoped_lock lock(mutex_);
  return !reason_.empty();
}

void Inbox::requireGoing() const {
  const std::scoped_lock lock(mutex_);
  if (!reason_.empty()) {
    raise<DeviceError>("the other owners of the program were told to stop: {}", reason_);
  }
}

void Inbox::leave(std::int32_t rank) {
  const std::scoped_lock lock(mutex_);
  left_.insert(rank);
  wakeAll();
}

bool Inbox::hasLeft(std::int32_t rank) const {
  const std::scoped_lock lock(mutex_);
  return left_.contains(rank);
}

}  // namespace sluice::runtime
