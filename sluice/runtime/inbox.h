// Inbox: messages that have arrived at a rank and that nobody has taken yet. Of messages with the
// same sender, context and number the first to arrive is the first to be taken. A message wakes
// only the thread that waits for it. Private to the runtime module.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "sluice/runtime/message_bytes.h"

namespace sluice::runtime {

class Inbox {
 public:
  struct Key {
    std::int32_t from = 0;
    std::int32_t context = 0;
    std::int64_t number = 0;
    auto operator<=>(const Key&) const = default;
  };

  using Clock = std::chrono::steady_clock;

  /// A thread that waits for a message, as long as it lives.
  class Wait {
   public:
    Wait(Inbox& inbox, const Key& key);
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait();
    /// Whether the message is there or will never be.
    bool isOver() const;
    /// Sleeps until it is over, until this thread is called, or until the end.
    void sleepUntil(Clock::time_point end);

   private:
    friend class Inbox;
    Inbox& inbox_;
    Key key_;
    std::condition_variable woken_;
    bool called_ = false;  // guarded by the inbox
    std::list<Wait*>::iterator place_;
  };

  void deliver(const Key& key, MessageBytes bytes);
  bool has(const Key& key) const;
  /// Waits until `take` would not wait any more; false: that took too long.
  bool await(const Key& key, std::chrono::milliseconds atMost);
  /// Waits until there is one. Throws DeviceError if it was interrupted, if the sender has left, or
  /// if none has come after `patience`; `me` is the rank that waits.
  MessageBytes take(const Key& key, std::int32_t me, std::chrono::milliseconds patience);
  /// The same after a wait for the message that took as long as `patience` or is over.
  MessageBytes fetch(const Key& key, std::int32_t me, std::chrono::milliseconds patience);
  /// Wakes one of the threads that wait; false: none does.
  bool callOne();

  /// Ends all waits, now and later. The first reason counts.
  void interrupt(std::string_view reason);
  bool isInterrupted() const;
  /// Throws what `take` throws then.
  void requireGoing() const;
  /// The rank sends nothing more.
  void leave(std::int32_t rank);
  bool hasLeft(std::int32_t rank) const;

 private:
  bool isOver(const Key& key) const;  // with the mutex
  void wakeAll();                     // with the mutex

  mutable std::mutex mutex_;  // guards all below
  std::list<Wait*> waits_;
  std::map<Key, std::deque<MessageBytes>> messages_;
  std::set<std::int32_t> left_;
  std::string reason_;
};

}  // namespace sluice::runtime
