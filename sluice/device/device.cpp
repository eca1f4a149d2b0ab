#include "sluice/device/device.h"

#include <algorithm>
#include <cstdlib>

#include "sluice/base/error.h"

namespace sluice::device {
namespace {

/// Ordinary memory of the host, aligned like a device's.
class AlignedMemory final : public Memory {
 public:
  AlignedMemory(MemoryKind kind, std::size_t bytes, std::size_t alignment, const DeviceInfo& owner)
      : AlignedMemory(kind, take(bytes, alignment, owner), bytes) {}
  ~AlignedMemory() override { std::free(host()); }
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;

 private:
  AlignedMemory(MemoryKind kind, std::byte* data, std::size_t bytes) : Memory(kind, data, bytes) {}

  static std::byte* take(std::size_t bytes, std::size_t alignment, const DeviceInfo& owner) {
    const std::size_t rounded =
        (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    auto* data =
        rounded < bytes ? nullptr : static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
    if (data == nullptr) {
      raise<OutOfMemory>(
          "the host cannot give {} bytes to {} device {}", bytes, owner.kind, owner.index);
    }
    return data;
  }
};

}  // namespace

std::unique_ptr<Memory> allocateOnHost(MemoryKind kind,
                                       std::size_t bytes,
                                       const DeviceInfo& owner) {
  return std::make_unique<AlignedMemory>(kind, bytes, owner.alignment, owner);
}

std::unique_ptr<Memory> Device::allocate(std::size_t bytes) {
  if (info().memoryBytes != 0 && bytes > info().memoryBytes) {
    raise<OutOfMemory>("device {} of kind {} has a budget of {} bytes, {} were asked for",
                       info().index,
                       info().kind,
                       info().memoryBytes,
                       bytes);
  }
  return doAllocate(bytes);
}

std::unique_ptr<Memory> Device::doAllocatePinned(std::size_t bytes) {
  return allocateOnHost(MemoryKind::Pinned, bytes, info());
}

}  // namespace sluice::device
