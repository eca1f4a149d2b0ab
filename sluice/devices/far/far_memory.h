// Memory of the far device. Its pages are mapped twice: where the device's queues work, and at an
// address without access rights ("the wall"), which is all that other code sees. Private to the
// device.
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/device/memory.h"

namespace sluice::devices::far {

class OrderCheck;

class FarMemory final : public device::Memory {
 public:
  /// Throws OutOfMemory. A check, if there is one, forgets the memory when it ends.
  FarMemory(std::size_t bytes, int device, std::shared_ptr<OrderCheck> check = nullptr);
  ~FarMemory() override;
  FarMemory(const FarMemory&) = delete;
  FarMemory& operator=(const FarMemory&) = delete;

  /// The index of its device.
  int device() const { return device_; }
  /// The address for the device's own threads.
  std::byte* behindTheWall() const { return behind_; }
  /// The address of the same bytes without access rights.
  const std::byte* wall() const { return wall_; }

 private:
  int device_;
  std::shared_ptr<OrderCheck> check_;
  std::size_t mapped_ = 0;
  std::byte* behind_ = nullptr;
  std::byte* wall_ = nullptr;
};

/// Pinned memory of the host that the check forgets when it ends.
class CheckedPinnedMemory final : public device::Memory {
 public:
  CheckedPinnedMemory(std::unique_ptr<device::Memory> memory, std::shared_ptr<OrderCheck> check);
  ~CheckedPinnedMemory() override;
  CheckedPinnedMemory(const CheckedPinnedMemory&) = delete;
  CheckedPinnedMemory& operator=(const CheckedPinnedMemory&) = delete;

 private:
  std::unique_ptr<device::Memory> memory_;
  std::shared_ptr<OrderCheck> check_;
};

}  // namespace sluice::devices::far
