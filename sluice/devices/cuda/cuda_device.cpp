#include "sluice/devices/cuda/cuda_device.h"

#include <algorithm>
#include <map>
#include <mutex>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/cuda_error.h"
#include "sluice/devices/cuda/cuda_memory.h"
#include "sluice/devices/cuda/cuda_queue.h"
#include "sluice/devices/cuda/cuda_segment.h"
#include "sluice/devices/cuda/driver_facts.h"
#include "sluice/devices/cuda/kernel_table.h"

namespace sluice::devices::cuda {
namespace {

GpuFacts factsOf(const cudaDeviceProp& gpu) {
  return {gpu.name, gpu.major, gpu.minor};
}

cudaDeviceProp propertiesOf(int gpu) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
  return properties;
}

/// What the plans of all shares together cannot have: what is taken once the process has a context
/// on the GPU, by it and by other programs, and room for the kernels and libraries that are loaded
/// later. Measured once.
std::size_t takenBytes(int gpu) {
  constexpr std::size_t kLoadedLater = std::size_t{256} << 20U;
  static std::mutex mutex;
  static std::map<int, std::size_t> known;
  const std::scoped_lock lock(mutex);
  std::size_t& taken = known[gpu];
  if (taken == 0) {
    select(gpu);
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    taken = total - free + kLoadedLater;
  }
  return taken;
}

/// A share's memory, and how much of it is taken. A budget that is given is for plans alone.
struct ShareMemory {
  std::size_t bytes = 0;
  std::size_t taken = 0;
};

/// The shares together must fit.
ShareMemory memoryOf(const CudaDeviceOptions& options, const cudaDeviceProp& gpu) {
  const auto shares = static_cast<std::size_t>(options.shares);
  const std::size_t each = gpu.totalGlobalMem / shares;
  const std::size_t taken = std::min(takenBytes(options.index) / shares, each);
  if (options.memoryBytes == 0) {
    return {each, taken};
  }
  if (options.memoryBytes > each - taken) {
    raise<OutOfMemory>(
        "cuda device {} has {} bytes, of which its context, libraries and other programs take {}; "
        "{} of {} bytes {} not fit into the rest",
        options.index,
        gpu.totalGlobalMem,
        taken * shares,
        options.shares == 1 ? "a budget" : fmt::format("{} budgets", shares),
        options.memoryBytes,
        options.shares == 1 ? "does" : "do");
  }
  return {options.memoryBytes, 0};
}

/// Kernels that read the memory of another GPU need its leave.
void enablePeers(int gpu) {
  select(gpu);
  for (int other = 0; other < gpuCount().value_or(0); ++other) {
    int allowed = 0;
    if (other != gpu) {
      check(cudaDeviceCanAccessPeer(&allowed, gpu, other), "cudaDeviceCanAccessPeer");
    }
    if (allowed != 0) {
      const cudaError_t result = cudaDeviceEnablePeerAccess(other, 0);
      if (result == cudaErrorPeerAccessAlreadyEnabled) {
        static_cast<void>(cudaGetLastError());
      } else {
        check(result, "cudaDeviceEnablePeerAccess");
      }
    }
  }
}

class CudaDevice final : public device::Device {
 public:
  CudaDevice(const CudaDeviceOptions& options, const cudaDeviceProp& gpu)
      : make_{.architecture = fmt::format("sm_{}{}", gpu.major, gpu.minor),
              .gpu = options.index,
              .cache = options.codeCache},
        table_("cuda",
               tableEntries(gpu.major < 8 ? TensorCores::Half : TensorCores::All),
               options.tuning) {
    int driver = 0;
    check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    const ShareMemory memory = memoryOf(options, gpu);
    info_ = {
        .kind = "cuda",
        .description = fmt::format("{}, compute capability {}.{}, {} multiprocessors, CUDA {}, "
                                   "driver for CUDA {}",
                                   gpu.name,
                                   gpu.major,
                                   gpu.minor,
                                   gpu.multiProcessorCount,
                                   versionText(CUDART_VERSION),
                                   versionText(driver)),
        .index = options.index,
        .threads = options.threads,
        .memoryBytes = memory.bytes,
        .ownBytes = memory.taken,
        .alignment = 256,
        .hostReadable = false,
        .asynchronous = true,
        .physicalId = options.index,
        .shares = options.shares,
        .copyEngines = gpu.asyncEngineCount};
  }

  const device::DeviceInfo& info() const override { return info_; }
  const device::KernelTable& kernels() const override { return table_; }
  std::unique_ptr<device::Queue> makeQueue() override {
    return std::make_unique<CudaQueue>(queues());
  }
  std::unique_ptr<device::Event> makeEvent() override {
    return std::make_unique<CudaEvent>(make_.gpu);
  }

 private:
  std::unique_ptr<device::Memory> doAllocate(std::size_t bytes) override {
    return std::make_unique<CudaMemory>(make_.gpu, bytes);
  }
  std::unique_ptr<device::Memory> doAllocatePinned(std::size_t bytes) override {
    return std::make_unique<PinnedMemory>(make_.gpu, bytes);
  }
  std::unique_ptr<device::Memory> doPin(std::byte* host, std::size_t bytes) override {
    return LockedMemory::lock(make_.gpu, host, bytes);
  }
  std::unique_ptr<device::Executable> doPrepare(
      std::span<const device::KernelCall> calls) override {
    select(make_.gpu);
    return std::make_unique<CudaSegment>(calls, make_, queues().faults);
  }
  std::unique_ptr<device::Capture> doCapture(device::Executable& executable,
                                             std::span<const device::Address> buffers) override {
    if (queues().synchronise) {
      return nullptr;
    }
    return std::make_unique<CudaCapture>(make_.gpu, static_cast<CudaSegment&>(executable), buffers);
  }
  std::unique_ptr<device::Capture> doRecord(std::span<device::Queue* const> queues,
                                            const ir::RunInfo& run,
                                            FunctionRef<void()> give) override;

  /// Made when it is first needed.
  QueueContext& queues() {
    std::call_once(isMade_, [this] {
      enablePeers(make_.gpu);
      queues_ = std::make_unique<QueueContext>(make_);
    });
    return *queues_;
  }

  MakeContext make_;
  std::once_flag isMade_;
  std::unique_ptr<QueueContext> queues_;
  device::DeviceInfo info_;
  device::KernelTable table_;
};

/// Makes queues record as long as it lives.
class RecordingQueues {
 public:
  RecordingQueues(std::span<device::Queue* const> queues, const CudaQueue::Recording& recording)
      : queues_(queues) {
    for (device::Queue* const queue : queues) {
      static_cast<CudaQueue*>(queue)->beginRecording(recording);
    }
  }
  ~RecordingQueues() {
    for (device::Queue* const queue : queues_) {
      static_cast<CudaQueue*>(queue)->endRecording();
    }
  }
  RecordingQueues(const RecordingQueues&) = delete;
  RecordingQueues& operator=(const RecordingQueues&) = delete;

 private:
  std::span<device::Queue* const> queues_;
};

std::unique_ptr<device::Capture> CudaDevice::doRecord(std::span<device::Queue* const> given,
                                                      const ir::RunInfo& run,
                                                      FunctionRef<void()> give) {
  std::vector<cudaStream_t> streams;
  for (device::Queue* const queue : given) {
    streams.push_back(static_cast<CudaQueue*>(queue)->stream());
    if (static_cast<CudaQueue*>(queue)->gpu() != make_.gpu) {
      return nullptr;  // a graph over several GPUs was never tried
    }
  }
  if (queues().synchronise || !queues().wholeSteps) {
    return nullptr;
  }
  return std::make_unique<CudaCapture>(
      make_.gpu, streams, [&](const RunNumbers* now, CopyNodes& copies) {
        const RecordingQueues all(given, {.from = run, .now = now, .copies = &copies});
        give();
      });
}

}  // namespace

std::string whyUnusable() {
  return whyUnusable(readDriver());
}

std::optional<int> gpuCount() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return count;
}

std::unique_ptr<device::Device> makeCudaDevice(const CudaDeviceOptions& options) {
  const cudaDeviceProp gpu = propertiesOf(options.index);
  if (const std::string why = whyTooOld(factsOf(gpu)); !why.empty()) {
    raise<DeviceError>("cuda device {} cannot be used: {}", options.index, why);
  }
  return std::make_unique<CudaDevice>(options, gpu);
}

}  // namespace sluice::devices::cuda
