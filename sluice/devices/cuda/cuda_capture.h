// Captured work of a CUDA device: a CUDA graph, of the launches of a segment or of all that several
// streams were given. Private to the device.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "sluice/base/function_ref.h"
#include "sluice/device/device.h"
#include "sluice/devices/cuda/cuda_memory.h"
#include "sluice/devices/cuda/cuda_segment.h"

namespace sluice::devices::cuda {

/// The nodes of a graph that is being captured.
using Nodes = std::vector<cudaGraphNode_t>;
/// The nodes that the stream has captured last: what it captures next follows them.
Nodes lastNodes(cudaStream_t stream);
/// Makes what the stream captures next follow these nodes and no others.
void continueAfter(cudaStream_t stream, Nodes nodes);

/// The copies of a graph, whose addresses can be changed.
class CopyNodes {
 public:
  /// The stream has captured a copy last.
  void add(cudaStream_t stream, device::Address to, device::Address from, std::size_t bytes);
  /// Copies that were recorded with the one address use the other one in the next launches.
  void redirect(cudaGraphExec_t graph, device::Address recorded, device::Address now);

 private:
  struct Copy {
    cudaGraphNode_t node = nullptr;
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0;
  };
  struct End {
    std::size_t copy = 0;
    bool isSource = false;
  };
  std::vector<Copy> copies_;
  std::multimap<std::pair<const device::Memory*, std::size_t>, End> ends_;  // as recorded
};

/// A CUDA graph, with the numbers of the step in memory of its own.
class CudaCapture final : public device::Capture {
 public:
  /// The launches of a segment.
  CudaCapture(int gpu, CudaSegment& segment, std::span<const device::Address> buffers);
  /// All that `give` gives to the streams, of one GPU, in their order and in that of events.
  /// Kernels read the numbers of the step from `run()`; copies are noted.
  CudaCapture(int gpu,
              std::span<const cudaStream_t> streams,
              FunctionRef<void(RunNumbers*, CopyNodes&)> give);
  ~CudaCapture() override;
  CudaCapture(const CudaCapture&) = delete;
  CudaCapture& operator=(const CudaCapture&) = delete;

  cudaGraphExec_t graph() const { return graph_; }
  /// Calls of a captured segment, those that are joined counted as one.
  std::size_t launches() const { return launches_; }
  /// Where its kernels read the numbers of the step; null if none does.
  RunNumbers* run() const {
    return runMemory_ ? reinterpret_cast<RunNumbers*>(runMemory_->pointer()) : nullptr;
  }

 private:
  void doRedirect(device::Address recorded, device::Address now) override {
    copies_.redirect(graph_, recorded, now);
  }
  /// Ends the capture of the stream and makes the graph ready to be launched.
  void instantiate(cudaStream_t stream);

  int gpu_;
  std::unique_ptr<CudaMemory> runMemory_;
  cudaGraph_t recorded_ = nullptr;  // has the nodes of the copies
  cudaGraphExec_t graph_ = nullptr;
  CopyNodes copies_;
  std::size_t launches_ = 0;
};

}  // namespace sluice::devices::cuda
