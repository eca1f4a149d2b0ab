// Memory behind the wall. Its pages are mapped twice: where the device's queues work, and at an
// address without access rights, which is all that others can learn. Private to the device.
#pragma once

#include <cstddef>

#include "sluice/device/memory.h"

namespace sluice::devices::far {

class FarMemory final : public device::Memory {
 public:
  /// Throws OutOfMemory.
  FarMemory(std::size_t bytes, int device);
  ~FarMemory() override;
  FarMemory(const FarMemory&) = delete;
  FarMemory& operator=(const FarMemory&) = delete;

  /// Of which device.
  int device() const { return device_; }
  /// Where the device's own threads find it.
  std::byte* behindTheWall() const { return behind_; }
  /// The same bytes, where nobody may read or write.
  const std::byte* wall() const { return wall_; }

 private:
  int device_;
  std::size_t mapped_ = 0;
  std::byte* behind_ = nullptr;
  std::byte* wall_ = nullptr;
};

}  // namespace sluice::devices::far
