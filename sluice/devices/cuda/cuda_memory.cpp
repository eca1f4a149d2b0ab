#include "sluice/devices/cuda/cuda_memory.h"

#include <algorithm>

#include <cuda_runtime_api.h>

#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/devices/cuda/cuda_device.h"
#include "sluice/devices/cuda/cuda_error.h"

namespace sluice::devices::cuda {
namespace {

std::byte* allocatePinned(int gpu, std::size_t bytes) {
  select(gpu);
  void* made = nullptr;
  const cudaError_t result = cudaHostAlloc(
      &made, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable | cudaHostAllocMapped);
  if (result == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    raise<OutOfMemory>(
        "the host cannot give {} page-locked bytes to cuda device {} (cudaHostAlloc)", bytes, gpu);
  }
  check(result, "cudaHostAlloc");
  return static_cast<std::byte*>(made);
}

}  // namespace

CudaMemory::CudaMemory(int gpu, std::size_t bytes)
    : Memory(device::MemoryKind::Device, nullptr, bytes), gpu_(gpu) {
  select(gpu);
  void* made = nullptr;
  const cudaError_t result = cudaMalloc(&made, std::max<std::size_t>(bytes, 1));
  if (result == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    raise<OutOfMemory>(
        "cuda device {} cannot give {} bytes (cudaMalloc): {} of its {} bytes are free; other "
        "arenas, shares of the GPU or other programs have the rest",
        gpu,
        bytes,
        free,
        total);
  }
  check(result, "cudaMalloc");
  pointer_ = static_cast<std::byte*>(made);
}

CudaMemory::~CudaMemory() {
  static_cast<void>(cudaSetDevice(gpu_));
  static_cast<void>(cudaFree(pointer_));
}

PinnedMemory::PinnedMemory(int gpu, std::size_t bytes)
    : Memory(device::MemoryKind::Pinned, allocatePinned(gpu, bytes), bytes), gpu_(gpu) {}

PinnedMemory::~PinnedMemory() {
  static_cast<void>(cudaSetDevice(gpu_));
  static_cast<void>(cudaFreeHost(host()));
}

std::unique_ptr<LockedMemory> LockedMemory::lock(int gpu, std::byte* host, std::size_t bytes) {
  select(gpu);
  const cudaError_t result =
      cudaHostRegister(host, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (result != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    log::warn("cuda",
              "the host cannot lock {} bytes ({}): copies between them and a GPU are slow",
              bytes,
              cudaGetErrorString(result));
    return nullptr;
  }
  return std::unique_ptr<LockedMemory>(new LockedMemory(gpu, host, bytes));
}

LockedMemory::~LockedMemory() {
  static_cast<void>(cudaSetDevice(gpu_));
  static_cast<void>(cudaHostUnregister(host()));
}

void* pointerTo(device::Address address) {
  if (const auto* memory = dynamic_cast<const CudaMemory*>(address.memory)) {
    return memory->pointer() + address.offset;
  }
  if (const auto* memory = dynamic_cast<const ForeignMemory*>(address.memory)) {
    return memory->pointer() + address.offset;
  }
  return device::hostPointer(address);
}

std::unique_ptr<device::Memory> wrapMemory(void* pointer, std::size_t bytes, int gpu) {
  cudaPointerAttributes attributes{};
  const cudaError_t result = cudaPointerGetAttributes(&attributes, pointer);
  static_cast<void>(cudaGetLastError());
  if (bytes > 0 &&
      (result != cudaSuccess || attributes.device != gpu ||
       (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged))) {
    raise<InvalidArgument>("expected memory of cuda device {}, and CUDA knows none there", gpu);
  }
  return std::make_unique<ForeignMemory>(pointer, bytes);
}

}  // namespace sluice::devices::cuda
