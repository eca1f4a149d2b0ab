// In a file of its own: where both are inlined, the compiler takes a replaced new and its delete
// for a mismatch.
#include "tests/support/allocation_count.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> allocations{0};
std::atomic<std::int64_t> bytesAsked{0};

void* count(std::size_t bytes, std::size_t alignment) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  bytesAsked.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return alignment <= alignof(std::max_align_t) ? std::malloc(bytes == 0 ? 1 : bytes)
                                                : std::aligned_alloc(alignment, rounded);
}

void* countOrThrow(std::size_t bytes, std::size_t alignment) {
  void* p = count(bytes, alignment);
  if (p == nullptr) {
    throw std::bad_alloc();
  }
  return p;
}

}  // namespace

std::int64_t sluice::testing::allocationCount() {
  return allocations.load();
}

std::int64_t sluice::testing::allocatedBytes() {
  return bytesAsked.load();
}

void* operator new(std::size_t bytes) {
  return countOrThrow(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return countOrThrow(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return count(bytes, 1);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
