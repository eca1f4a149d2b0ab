#include "sluice/runtime/message_bytes.h"

#include <bit>
#include <map>
#include <mutex>

#include "sluice/base/host_limits.h"

namespace sluice::runtime {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 16;
/// What is kept at most.
constexpr std::size_t kKept = std::size_t{1} << 28;

/// Never destroyed: messages may outlive everything else.
struct Blocks {
  std::mutex mutex;  // guards all below
  std::multimap<std::size_t, void*> free;
  std::size_t bytes = 0;
};

Blocks& blocks() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): guarded by its mutex
  static Blocks& made = *new Blocks;
  return made;
}

/// An eighth of a power of two, so that blocks of nearly the same size serve each other.
std::size_t rounded(std::size_t bytes) {
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

}  // namespace

void* takeBlock(std::size_t bytes) {
  if (bytes < kLarge) {
    return ::operator new(bytes);
  }
  const std::size_t size = rounded(bytes);
  {
    Blocks& all = blocks();
    const std::scoped_lock lock(all.mutex);
    if (const auto found = all.free.find(size); found != all.free.end()) {
      void* block = found->second;
      all.free.erase(found);
      all.bytes -= size;
      return block;
    }
  }
  return orOutOfMemory("a message between processes", [&] { return ::operator new(size); });
}

void giveBlock(void* block, std::size_t bytes) noexcept {
  if (bytes >= kLarge) {
    const std::size_t size = rounded(bytes);
    Blocks& all = blocks();
    const std::scoped_lock lock(all.mutex);
    if (all.bytes + size <= kKept) {
      all.free.emplace(size, block);
      all.bytes += size;
      return;
    }
  }
  ::operator delete(block);
}

}  // namespace sluice::runtime
