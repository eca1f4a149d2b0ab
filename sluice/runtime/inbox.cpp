#include "sluice/runtime/inbox.h"

#include "sluice/base/error.h"

namespace sluice::runtime {

void Inbox::deliver(const Key& key, MessageBytes bytes) {
  const std::scoped_lock lock(mutex_);
  messages_[key].push_back(std::move(bytes));
  changed_.notify_all();
}

MessageBytes Inbox::take(const Key& key, std::int32_t me, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  const auto isThere = [&] { return messages_.contains(key); };
  const bool ended = changed_.wait_for(
      lock, patience, [&] { return isThere() || !reason_.empty() || left_.contains(key.from); });
  if (!reason_.empty()) {
    raise<DeviceError>("the other owners of the program were told to stop: {}", reason_);
  }
  if (!ended) {
    raise<DeviceError>(
        "rank {} has waited {} s for rank {}, which lives and sends nothing: do all processes make "
        "the same calls? SLUICE_PEER_PATIENCE sets these seconds",
        me,
        patience.count() / 1000,
        key.from);
  }
  if (!isThere()) {
    raise<DeviceError>(
        "rank {} has ended, and rank {} waits for a message from it: all processes must make the "
        "same calls",
        key.from,
        me);
  }
  const auto found = messages_.find(key);
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
  changed_.notify_all();
}

bool Inbox::isInterrupted() const {
  const std::scoped_lock lock(mutex_);
  return !reason_.empty();
}

void Inbox::leave(std::int32_t rank) {
  const std::scoped_lock lock(mutex_);
  left_.insert(rank);
  changed_.notify_all();
}

bool Inbox::hasLeft(std::int32_t rank) const {
  const std::scoped_lock lock(mutex_);
  return left_.contains(rank);
}

}  // namespace sluice::runtime
