#include "sluice/devices/cuda/cuda_capture.h"

#include <map>
#include <mutex>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/cuda_error.h"

namespace sluice::devices::cuda {
namespace {

/// Streams that captures have used. They are kept: a library may remember the last stream that it
/// was given.
struct IdleStreams {
  std::mutex mutex;
  std::multimap<int, cudaStream_t> byGpu;
};

IdleStreams& idleStreams() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): guarded by its mutex
  static auto* const kAll = new IdleStreams;
  return *kAll;
}

/// Lends a stream.
class Stream {
 public:
  explicit Stream(int gpu) : gpu_(gpu) {
    select(gpu);
    const std::scoped_lock lock(idleStreams().mutex);
    if (const auto found = idleStreams().byGpu.find(gpu); found != idleStreams().byGpu.end()) {
      stream_ = found->second;
      idleStreams().byGpu.erase(found);
      return;
    }
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~Stream() {
    const std::scoped_lock lock(idleStreams().mutex);
    idleStreams().byGpu.emplace(gpu_, stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  int gpu_;
  cudaStream_t stream_ = nullptr;
};

/// An event of a capture: a place in a stream that others wait for.
class Mark {
 public:
  explicit Mark(cudaStream_t stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    const cudaError_t result = cudaEventRecord(event_, stream);
    if (result != cudaSuccess) {
      static_cast<void>(cudaEventDestroy(event_));
    }
    check(result, "cudaEventRecord");
  }
  ~Mark() { static_cast<void>(cudaEventDestroy(event_)); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  void isAwaitedBy(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Ends a capture that has failed.
void abandon(cudaStream_t stream) {
  cudaGraph_t recorded = nullptr;
  static_cast<void>(cudaStreamEndCapture(stream, &recorded));
  if (recorded != nullptr) {
    static_cast<void>(cudaGraphDestroy(recorded));
  }
  static_cast<void>(cudaGetLastError());
}

/// Relaxed: a kernel that is launched for the first time may have to be loaded.
void beginCapture(cudaStream_t stream) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
}

}  // namespace

void continueAfter(cudaStream_t stream, Nodes nodes) {
#if CUDART_VERSION >= 13000
  const cudaError_t result = cudaStreamUpdateCaptureDependencies(
      stream, nodes.data(), nullptr, nodes.size(), cudaStreamSetCaptureDependencies);
#else
  const cudaError_t result = cudaStreamUpdateCaptureDependencies(
      stream, nodes.data(), nodes.size(), cudaStreamSetCaptureDependencies);
#endif
  check(result, "cudaStreamUpdateCaptureDependencies");
}

Nodes lastNodes(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  const cudaGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
#if CUDART_VERSION >= 13000
  const cudaGraphEdgeData* edges = nullptr;
  const cudaError_t result =
      cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count);
#else
  const cudaError_t result =
      cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, nullptr, &nodes, &count);
#endif
  check(result, "cudaStreamGetCaptureInfo");
  return {nodes, nodes + count};
}

void CopyNodes::add(cudaStream_t stream,
                    device::Address to,
                    device::Address from,
                    std::size_t bytes) {
  const Nodes last = lastNodes(stream);
  SLUICE_CHECK(last.size() == 1, "a copy that was captured is not the last node of its stream");
  ends_.insert({{to.memory, to.offset}, {copies_.size(), false}});
  ends_.insert({{from.memory, from.offset}, {copies_.size(), true}});
  copies_.push_back({last[0], pointerTo(to), pointerTo(from), bytes});
}

void CopyNodes::redirect(cudaGraphExec_t graph, device::Address recorded, device::Address now) {
  void* const pointer = pointerTo(now);
  const auto [begin, end] = ends_.equal_range({recorded.memory, recorded.offset});
  for (auto found = begin; found != end; ++found) {
    Copy& copy = copies_[found->second.copy];
    const bool isSource = found->second.isSource;
    if (pointer == (isSource ? copy.from : copy.to)) {
      continue;
    }
    copy.from = isSource ? pointer : copy.from;
    copy.to = isSource ? copy.to : pointer;
    check(cudaGraphExecMemcpyNodeSetParams1D(
              graph, copy.node, copy.to, copy.from, copy.bytes, cudaMemcpyDefault),
          "cudaGraphExecMemcpyNodeSetParams1D");
  }
}

CudaCapture::CudaCapture(int gpu, CudaSegment& segment, std::span<const device::Address> buffers)
    : gpu_(gpu),
      runMemory_(segment.readsRun() ? std::make_unique<CudaMemory>(gpu, sizeof(RunNumbers))
                                    : nullptr) {
  const std::vector<CudaSegment::Unit> units = segment.unitsFor(buffers);
  launches_ = units.size();
  const Stream stream(gpu);
  beginCapture(stream.get());
  try {
    segment.record({.stream = stream.get(), .run = run()}, buffers, units);
  } catch (...) {
    abandon(stream.get());
    throw;
  }
  instantiate(stream.get());
  static_cast<void>(cudaGraphDestroy(std::exchange(recorded_, nullptr)));
}

CudaCapture::CudaCapture(int gpu,
                         std::span<const cudaStream_t> streams,
                         FunctionRef<void(RunNumbers*, CopyNodes&)> give)
    : gpu_(gpu), runMemory_(std::make_unique<CudaMemory>(gpu, sizeof(RunNumbers))) {
  const Stream first(gpu);
  beginCapture(first.get());
  try {
    const Mark begin(first.get());
    for (const cudaStream_t stream : streams) {
      begin.isAwaitedBy(stream);
    }
    give(run(), copies_);
    for (const cudaStream_t stream : streams) {
      const Mark end(stream);
      end.isAwaitedBy(first.get());
    }
  } catch (...) {
    abandon(first.get());
    throw;
  }
  instantiate(first.get());
}

void CudaCapture::instantiate(cudaStream_t stream) {
  check(cudaStreamEndCapture(stream, &recorded_), "cudaStreamEndCapture");
  const cudaError_t result = cudaGraphInstantiate(&graph_, recorded_, 0);
  if (result != cudaSuccess) {  // the destructor does not run
    static_cast<void>(cudaGraphDestroy(recorded_));
  }
  check(result, "cudaGraphInstantiate");
}

CudaCapture::~CudaCapture() {
  static_cast<void>(cudaSetDevice(gpu_));
  static_cast<void>(cudaGraphExecDestroy(graph_));
  if (recorded_ != nullptr) {
    static_cast<void>(cudaGraphDestroy(recorded_));
  }
}

}  // namespace sluice::devices::cuda
