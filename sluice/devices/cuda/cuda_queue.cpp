#include "sluice/devices/cuda/cuda_queue.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "sluice/base/environment.h"
#include "sluice/base/error.h"
#include "sluice/devices/cuda/cuda_error.h"
#include "sluice/devices/cuda/nccl.h"

namespace sluice::devices::cuda {
namespace {

constexpr std::string_view kQueueTools = R"(
extern "C" __global__ void set_run(Run* to, Run run) { *to = run; }
extern "C" __global__ void move_run(Run* to, const Run* now, Run told) {
  *to = {now->seed, now->microBatch + told.microBatch, told.microBatchInRound, told.replica};
}
struct Stamp { i64 number; i64 time; };
extern "C" __global__ void stamp(Stamp* to, i64 number, i64 offset) {
  i64 now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  *(volatile i64*)&to->time = now + offset;
  __threadfence_system();
  *(volatile i64*)&to->number = number;
}
#define SUM(T) extern "C" __global__ void sum_##T(T* to, const T* x, const T* y, i64 elements) { \
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x; \
  if (i < elements) to[i] = narrow<T>(wide(x[i]) + wide(y[i])); }
SUM(f32) SUM(f64) SUM(f16) SUM(bf16)
)";

static_assert(sizeof(device::Stamp) == 2 * sizeof(std::int64_t));

template <class... Arguments>
void launchTool(const void* kernel,
                std::int64_t blocks,
                unsigned threads,
                cudaStream_t stream,
                Arguments... arguments) {
  std::array<void*, sizeof...(Arguments)> pointers = {&arguments...};
  check(cudaLaunchKernel(
            kernel, dim3(static_cast<unsigned>(blocks)), dim3(threads), pointers.data(), 0, stream),
        "cudaLaunchKernel of a queue");
}

/// The steady clock of the host minus the GPU's: the measurement that took the shortest time is the
/// most exact one, and the first also loads the kernel. All devices on a GPU share it, so that
/// their times can be compared.
std::int64_t measureOffset(int gpu, const QueueTools& tools) {
  static std::mutex mutex;
  static std::map<int, std::int64_t> known;
  const std::scoped_lock lock(mutex);
  if (const auto found = known.find(gpu); found != known.end()) {
    return found->second;
  }
  const PinnedMemory memory(gpu, sizeof(device::Stamp));
  auto* stamp = new (memory.host()) device::Stamp;
  std::int64_t offset = 0;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  constexpr int kMeasurements = 10;
  for (int i = 0; i < kMeasurements; ++i) {
    const std::int64_t before = device::steadyNanoseconds();
    launchTool(tools.stamp, 1, 1, nullptr, stamp, std::int64_t{1}, std::int64_t{0});
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    const std::int64_t after = device::steadyNanoseconds();
    if (after - before < shortest) {
      shortest = after - before;
      offset = before + shortest / 2 - stamp->time.load();
    }
  }
  return known[gpu] = offset;
}

/// A stamp that the host writes, in the order of the stream.
struct HostStamp {
  device::Stamp& stamp;
  std::int64_t number;
  device::Clock clock;
};

void writeStamp(void* data) {
  const std::unique_ptr<HostStamp> work(static_cast<HostStamp*>(data));
  work->stamp.time.store(work->clock(), std::memory_order_relaxed);
  work->stamp.number.store(work->number, std::memory_order_release);
}

/// The address for the GPU, or null if the memory is not page-locked.
void* mappedPointer(const void* host) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, host) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  return attributes.type == cudaMemoryTypeHost ? attributes.devicePointer : nullptr;
}

/// Memory of the host that is not page-locked.
bool isOutOfReach(device::Address address) {
  return address.memory->kind() == device::MemoryKind::Host;
}

/// Memory of the GPU for the work of a stream, which is given back in its order.
class StreamMemory {
 public:
  StreamMemory(int gpu, cudaStream_t stream, std::size_t bytes) : stream_(stream) {
    const cudaError_t result = cudaMallocAsync(&pointer_, bytes, stream);
    if (result == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      raise<OutOfMemory>(
          "cuda device {} cannot give {} bytes for a sum over processes (cudaMallocAsync)",
          gpu,
          bytes);
    }
    check(result, "cudaMallocAsync");
  }
  ~StreamMemory() { static_cast<void>(cudaFreeAsync(pointer_, stream_)); }
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;
  std::byte* pointer() const { return static_cast<std::byte*>(pointer_); }

 private:
  cudaStream_t stream_;
  void* pointer_ = nullptr;
};

}  // namespace

QueueTools::QueueTools(const MakeContext& context)
    : module(Modules::ofProcess().get(std::string(kQueueTools), context)),
      setRun(module->entry("set_run")),
      moveRun(module->entry("move_run")),
      stamp(module->entry("stamp")) {
  for (const DType type : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    sums[static_cast<std::size_t>(type)] = module->entry(fmt::format("sum_{}", name(type)));
  }
}

QueueContext::QueueContext(const MakeContext& context)
    : gpu(context.gpu),
      tools(context),
      faults(context.gpu),
      peers(nccl::makePort(context.gpu)),
      synchronise(isSwitchedOn("SLUICE_CUDA_SYNC")),
      wholeSteps(isSwitchedOn("SLUICE_CUDA_WHOLE_STEPS")) {
  select(gpu);
  clockOffset = measureOffset(gpu, tools);
}

CudaEvent::CudaEvent(int gpu) : gpu_(gpu) {
  select(gpu);
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

CudaEvent::~CudaEvent() {
  static_cast<void>(cudaEventDestroy(event_));
}

bool CudaEvent::doIsDone() const {
  static_cast<void>(cudaSetDevice(gpu_));  // fails on a GPU that is lost, as the query does
  const cudaError_t result = cudaEventQuery(event_);
  if (result == cudaErrorNotReady) {
    return false;
  }
  static_cast<void>(cudaGetLastError());  // work that failed has ended; its queue says why
  return true;
}

bool CudaEvent::doAwait(std::chrono::milliseconds atMost) const {
  const auto end = std::chrono::steady_clock::now() + atMost;
  for (int looks = 0; !isDone(); ++looks) {
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    if (looks > 100) {  // long work: leave the core to others
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  return true;
}

CudaQueue::CudaQueue(QueueContext& context)
    : context_(context), runMemory_(context.gpu, sizeof(RunNumbers)) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

CudaQueue::~CudaQueue() {
  static_cast<void>(cudaSetDevice(context_.gpu));
  static_cast<void>(cudaStreamSynchronize(stream_));
  static_cast<void>(cudaStreamDestroy(stream_));
}

void CudaQueue::beginWork() const {
  if (isStopped()) {
    raise<Cancelled>("the step was given up");
  }
  select(context_.gpu);
}

void CudaQueue::doSetRun(const ir::RunInfo& info) {
  run_ = {.seed = info.seed,
          .microBatch = info.microBatch,
          .microBatchInRound = info.microBatchInRound,
          .replica = info.replica};
  isRunWritten_ = false;
}

void CudaQueue::writeRun() {
  if (isRunWritten_) {
    return;
  }
  if (recording_) {
    RunNumbers told = run_;
    told.microBatch -= recording_->from.microBatch;
    launchTool(context_.tools.moveRun, 1, 1, stream_, runMemory_.pointer(), recording_->now, told);
  } else {
    launchTool(context_.tools.setRun, 1, 1, stream_, runMemory_.pointer(), run_);
  }
  isRunWritten_ = true;
}

void CudaQueue::beginRecording(const Recording& recording) {
  recording_ = recording;
  isRunWritten_ = false;
}

void CudaQueue::endRecording() {
  recording_.reset();
  lastStamp_.clear();
  isRunWritten_ = false;
}

void CudaQueue::doLaunch(device::Executable& executable, std::span<const device::Address> buffers) {
  beginWork();
  auto& segment = static_cast<CudaSegment&>(executable);
  if (segment.readsRun()) {
    writeRun();
  }
  const CudaSegment::Launch how{.stream = stream_,
                                .run = reinterpret_cast<RunNumbers*>(runMemory_.pointer()),
                                .synchronise = context_.synchronise};
  if (recording_) {
    segment.record(how, buffers, segment.unitsFor(buffers));
  } else {
    segment.launch(how, buffers);
  }
}

void CudaQueue::doReplay(device::Capture& capture) {
  beginWork();
  const auto& captured = static_cast<const CudaCapture&>(capture);
  if (captured.run() != nullptr) {
    launchTool(context_.tools.setRun, 1, 1, stream_, captured.run(), run_);
  }
  check(cudaGraphLaunch(captured.graph(), stream_), "cudaGraphLaunch");
}

void CudaQueue::doCopy(device::Address to, device::Address from, std::size_t bytes) {
  beginWork();
  check(cudaMemcpyAsync(pointerTo(to), pointerTo(from), bytes, cudaMemcpyDefault, stream_),
        "cudaMemcpyAsync");
  if (recording_) {
    recording_->copies->add(stream_, to, from, bytes);
  }
}

void CudaQueue::doFill(device::Address to, std::byte value, std::size_t bytes) {
  beginWork();
  check(cudaMemsetAsync(pointerTo(to), static_cast<int>(value), bytes, stream_), "cudaMemsetAsync");
}

void CudaQueue::doSum(device::Address to,
                      std::span<const device::Address> from,
                      DType type,
                      std::int64_t elements) {
  beginWork();
  if (isOutOfReach(to) || std::ranges::any_of(from, isOutOfReach)) {
    sumFromHost(to, from, type, elements);
    return;
  }
  void* const sum = pointerTo(to);
  if (from.size() == 1) {
    const std::size_t bytes = static_cast<std::size_t>(elements) * byteSize(type);
    check(cudaMemcpyAsync(sum, pointerTo(from[0]), bytes, cudaMemcpyDefault, stream_),
          "cudaMemcpyAsync");
    return;
  }
  for (std::size_t i = 1; i < from.size(); ++i) {
    launchTool(context_.tools.sum(type),
               (elements + 255) / 256,
               256,
               stream_,
               sum,
               i == 1 ? pointerTo(from[0]) : sum,
               pointerTo(from[i]),
               elements);
  }
}

void CudaQueue::sumFromHost(device::Address to,
                            std::span<const device::Address> from,
                            DType type,
                            std::int64_t elements) {
  constexpr std::size_t kAlignment = 256;
  const std::size_t bytes = static_cast<std::size_t>(elements) * byteSize(type);
  const std::size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const StreamMemory memory(context_.gpu, stream_, 2 * padded);
  std::byte* const sum = memory.pointer();
  std::byte* const term = sum + padded;
  const auto copy = [&](void* target, const void* source) {
    check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  };
  copy(sum, pointerTo(from[0]));
  for (const device::Address& each : from.subspan(1)) {
    copy(term, pointerTo(each));
    launchTool(context_.tools.sum(type),
               (elements + 255) / 256,
               256,
               stream_,
               static_cast<void*>(sum),
               static_cast<void*>(sum),
               static_cast<void*>(term),
               elements);
  }
  copy(pointerTo(to), sum);
}

void CudaQueue::doRecord(device::Event& event) {
  select(context_.gpu);
  check(cudaEventRecord(static_cast<CudaEvent&>(event).get(), stream_), "cudaEventRecord");
}

void CudaQueue::doWait(const device::Event& event) {
  select(context_.gpu);
  check(cudaStreamWaitEvent(stream_, static_cast<const CudaEvent&>(event).get(), 0),
        "cudaStreamWaitEvent");
}

void CudaQueue::doStamp(device::Stamp& stamp, std::int64_t number, device::Clock clock) {
  select(context_.gpu);
  void* const mapped = clock == device::steadyNanoseconds ? mappedPointer(&stamp) : nullptr;
  if (mapped != nullptr && recording_) {
    recordStamp(mapped, number);
    return;
  }
  if (mapped != nullptr) {
    launchTool(context_.tools.stamp, 1, 1, stream_, mapped, number, context_.clockOffset);
    return;
  }
  if (recording_) {  // the host's function has its data for one call
    raise<DeviceError>(
        "a stamp can be recorded in page-locked memory and with the monotonic clock only");
  }
  auto work = std::make_unique<HostStamp>(HostStamp{stamp, number, clock});
  check(cudaLaunchHostFunc(stream_, writeStamp, work.get()), "cudaLaunchHostFunc");
  static_cast<void>(work.release());  // the function has it now
}

void CudaQueue::recordStamp(void* mapped, std::int64_t number) {
  Nodes work = lastNodes(stream_);
  Nodes before = work;
  before.insert(before.end(), lastStamp_.begin(), lastStamp_.end());  // stamps keep their order
  continueAfter(stream_, before);
  launchTool(context_.tools.stamp, 1, 1, stream_, mapped, number, context_.clockOffset);
  lastStamp_ = lastNodes(stream_);
  continueAfter(stream_, work);
}

void CudaQueue::doFinish() {
  select(context_.gpu);
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  if (const std::exception_ptr fault = context_.faults.read(true)) {
    std::rethrow_exception(fault);
  }
}

bool CudaQueue::doIsIdle() const {
  static_cast<void>(cudaSetDevice(context_.gpu));  // as for events
  const cudaError_t result = cudaStreamQuery(stream_);
  if (result == cudaErrorNotReady) {
    return false;
  }
  static_cast<void>(cudaGetLastError());
  return true;
}

std::exception_ptr CudaQueue::doFailure() const {
  if (std::exception_ptr fault = context_.faults.read(false)) {
    return fault;
  }
  try {
    select(context_.gpu);
    const cudaError_t result = cudaStreamQuery(stream_);
    if (result != cudaErrorNotReady) {
      check(result, "the work of a stream");
    }
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace sluice::devices::cuda
