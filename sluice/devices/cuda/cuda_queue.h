// The queue of a CUDA device: a stream. Work goes to the stream in the order of the calls, and the
// call returns; events are CUDA's, and a captured launch is a CUDA graph. A stamp in pinned memory
// is written by the GPU itself. Private to the device.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>

#include <cuda_runtime_api.h>

#include "sluice/device/device.h"
#include "sluice/device/peer_group.h"
#include "sluice/devices/cuda/compiler.h"
#include "sluice/devices/cuda/cuda_capture.h"
#include "sluice/devices/cuda/cuda_segment.h"

namespace sluice::devices::cuda {

/// The small kernels of queues.
struct QueueTools {
  explicit QueueTools(const MakeContext& context);
  /// Adds two tensors of a float type.
  const void* sum(DType type) const { return sums[static_cast<std::size_t>(type)]; }

  std::shared_ptr<const Module> module;
  const void* setRun;
  const void* moveRun;
  const void* stamp;
  std::array<const void*, kNumDTypes> sums{};  ///< by type; null for integers
};

/// What the queues of a device share.
struct QueueContext {
  explicit QueueContext(const MakeContext& context);

  int gpu;
  QueueTools tools;
  Faults faults;
  std::unique_ptr<device::PeerPort> peers;
  std::int64_t clockOffset = 0;  ///< steady clock of the host minus the GPU's, in nanoseconds
  bool synchronise = false;      ///< SLUICE_CUDA_SYNC: wait after every kernel
  /// SLUICE_CUDA_WHOLE_STEPS: short steps become one graph each, with the same bits. On request
  /// only, because training of small networks was slower with it.
  bool wholeSteps = false;
};

class CudaEvent final : public device::Event {
 public:
  explicit CudaEvent(int gpu);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  bool doIsDone() const override;
  bool doAwait(std::chrono::milliseconds atMost) const override;

  int gpu_;
  cudaEvent_t event_ = nullptr;
};

class CudaQueue final : public device::Queue {
 public:
  explicit CudaQueue(QueueContext& context);
  ~CudaQueue() override;
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  cudaStream_t stream() const { return stream_; }
  int gpu() const { return context_.gpu; }

  /// What a queue needs whose work is being recorded.
  struct Recording {
    ir::RunInfo from;                 ///< what the recorded numbers are counted from
    const RunNumbers* now = nullptr;  ///< where a replay finds its own
    CopyNodes* copies = nullptr;      ///< are noted here
  };
  /// From now on the stream belongs to a capture.
  void beginRecording(const Recording& recording);
  void endRecording();

 private:
  void doSetRun(const ir::RunInfo& info) override;
  void doLaunch(device::Executable& executable, std::span<const device::Address> buffers) override;
  void doReplay(device::Capture& capture) override;
  void doCopy(device::Address to, device::Address from, std::size_t bytes) override;
  void doFill(device::Address to, std::byte value, std::size_t bytes) override;
  void doSum(device::Address to,
             std::span<const device::Address> from,
             DType type,
             std::int64_t elements) override;
  void doRecord(device::Event& event) override;
  void doWait(const device::Event& event) override;
  void doStamp(device::Stamp& stamp, std::int64_t number, device::Clock clock) override;
  void doFinish() override;
  bool doIsIdle() const override;
  std::exception_ptr doFailure() const override;
  device::PeerPort* doPeerPort() override { return context_.peers.get(); }

  /// A sum of terms, or to a place, that kernels cannot reach: over memory for this sum alone.
  void sumFromHost(device::Address to,
                   std::span<const device::Address> from,
                   DType type,
                   std::int64_t elements);
  /// Selects the GPU; throws Cancelled if the step was given up.
  void beginWork() const;
  /// Writes the numbers of the step where kernels read them, if they have changed.
  void writeRun();
  /// Stamps beside the work that follows, which does not wait for it.
  void recordStamp(void* mapped, std::int64_t number);

  QueueContext& context_;
  cudaStream_t stream_ = nullptr;
  CudaMemory runMemory_;
  RunNumbers run_;
  bool isRunWritten_ = false;
  std::optional<Recording> recording_;  // empty: work is done
  Nodes lastStamp_;                     // while it records
};

}  // namespace sluice::devices::cuda
