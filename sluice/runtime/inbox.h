// Inbox: messages that have arrived at a rank and that nobody has taken yet. Of messages with the
// same sender, context and number the first to arrive is the first to be taken. Private to the
// runtime module.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
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

  void deliver(const Key& key, MessageBytes bytes);
  /// Waits until there is one. Throws DeviceError if it was interrupted, if the sender has left, or
  /// if none has come after `patience`; `me` is the rank that waits.
  MessageBytes take(const Key& key, std::int32_t me, std::chrono::milliseconds patience);

  /// Ends all waits, now and later. The first reason counts.
  void interrupt(std::string_view reason);
  bool isInterrupted() const;
  /// The rank sends nothing more.
  void leave(std::int32_t rank);
  bool hasLeft(std::int32_t rank) const;

 private:
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<Key, std::deque<MessageBytes>> messages_;
  std::set<std::int32_t> left_;
  std::string reason_;
};

}  // namespace sluice::runtime
