// Memory of a GPU, and pinned memory of the host that GPUs read and write by themselves. Private to
// the device.
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/device/memory.h"

namespace sluice::devices::cuda {

/// One allocation of a GPU.
class CudaMemory final : public device::Memory {
 public:
  /// Throws OutOfMemory with what was asked for, what is free and what there is.
  CudaMemory(int gpu, std::size_t bytes);
  ~CudaMemory() override;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  int gpu() const { return gpu_; }
  std::byte* pointer() const { return pointer_; }

 private:
  int gpu_;
  std::byte* pointer_ = nullptr;
};

/// Memory of a GPU that another library has, and keeps while this object lives.
class ForeignMemory final : public device::Memory {
 public:
  ForeignMemory(void* pointer, std::size_t bytes)
      : Memory(device::MemoryKind::Device, nullptr, bytes),
        pointer_(static_cast<std::byte*>(pointer)) {}
  std::byte* pointer() const { return pointer_; }

 private:
  std::byte* pointer_;
};

/// Page-locked memory of the host, at the same address for the host and every GPU.
class PinnedMemory final : public device::Memory {
 public:
  /// Throws OutOfMemory.
  PinnedMemory(int gpu, std::size_t bytes);
  ~PinnedMemory() override;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

 private:
  int gpu_;
};

/// Memory of the host that was allocated by others and is page-locked while this lives.
class LockedMemory final : public device::Memory {
 public:
  /// Null if the host cannot lock so much.
  static std::unique_ptr<LockedMemory> lock(int gpu, std::byte* host, std::size_t bytes);
  ~LockedMemory() override;
  LockedMemory(const LockedMemory&) = delete;
  LockedMemory& operator=(const LockedMemory&) = delete;

 private:
  LockedMemory(int gpu, std::byte* host, std::size_t bytes)
      : Memory(device::MemoryKind::Pinned, host, bytes), gpu_(gpu) {}
  int gpu_;
};

/// The address for CUDA: of GPU memory or of the host's; null if the address has no memory.
void* pointerTo(device::Address address);

}  // namespace sluice::devices::cuda
