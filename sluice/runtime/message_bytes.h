// MessageBytes: the bytes of a message. They are not set to zero when they are made, and large
// blocks are kept for the next message: fresh pages would cost more than copying into them. Private
// to the runtime module.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace sluice::runtime {

/// Blocks of any size. Any thread may call these.
void* takeBlock(std::size_t bytes);
void giveBlock(void* block, std::size_t bytes) noexcept;

template <class T>
struct BlockAllocator {
  using value_type = T;  // NOLINT(readability-identifier-naming): the standard's name

  BlockAllocator() = default;
  template <class U>
  BlockAllocator(const BlockAllocator<U>&) {}  // NOLINT: the standard converts

  T* allocate(std::size_t count) { return static_cast<T*>(takeBlock(count * sizeof(T))); }
  void deallocate(T* block, std::size_t count) noexcept { giveBlock(block, count * sizeof(T)); }
  /// Without a value nothing is written.
  template <class U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
  bool operator==(const BlockAllocator&) const { return true; }
};

using MessageBytes = std::vector<std::byte, BlockAllocator<std::byte>>;

// A vector with an allocator of its own copies byte by byte, ten times as long as these.

/// Copies as many bytes as there are to a place in the message.
inline void putBytes(MessageBytes& message, std::size_t at, std::span<const std::byte> bytes) {
  if (!bytes.empty()) {
    std::memcpy(message.data() + at, bytes.data(), bytes.size());
  }
}

inline MessageBytes copyOf(std::span<const std::byte> bytes) {
  MessageBytes copy(bytes.size());
  putBytes(copy, 0, bytes);
  return copy;
}

inline void appendBytes(MessageBytes& message, std::span<const std::byte> bytes) {
  const std::size_t before = message.size();
  message.resize(before + bytes.size());
  putBytes(message, before, bytes);
}

}  // namespace sluice::runtime
