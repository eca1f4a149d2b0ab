#include "sluice/devices/cuda/nccl.h"

#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/cuda_error.h"
#include "sluice/devices/cuda/cuda_memory.h"
#include "sluice/devices/cuda/cuda_queue.h"
#include "sluice/devices/cuda/nccl_api.h"

namespace sluice::devices::cuda::nccl {
namespace {

using Clock = std::chrono::steady_clock;

/// Looks often at first, then leaves the core to others.
class Looks {
 public:
  void next() {
    if (++count_ > 100) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

 private:
  int count_ = 0;
};

class Group final : public device::PeerGroup {
 public:
  Group(int gpu, const Id& id, std::int32_t rank, std::int32_t size, device::PeerWait wait)
      : PeerGroup(rank, size), gpu_(gpu) {
    select(gpu);
    Config config;
    guard([&] {
      require(api().init(&comm_, size, id, rank, &config), "ncclCommInitRankConfig");
      settle("ncclCommInitRankConfig", wait);
    });
  }

  ~Group() override {
    if (comm_ != nullptr) {
      static_cast<void>(cudaSetDevice(gpu_));
      static_cast<void>(endsInTime() ? api().destroy(comm_) : api().abort(comm_));
    }
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

 private:
  void doExchange(device::Queue& queue,
                  std::span<const device::PeerMove> moves,
                  device::PeerWait wait) override {
    const cudaStream_t stream = streamOf(queue);
    work("ncclGroupEnd", stream, wait, [&] {
      require(api().groupStart(), "ncclGroupStart");
      int result = kSuccess;
      std::string_view call = "ncclSend";
      for (const device::PeerMove& move : moves) {
        const bool sends = move.way == device::PeerMove::Way::Send;
        call = sends ? "ncclSend" : "ncclRecv";
        void* const at = pointerTo(move.at);
        result = sends ? api().send(at, move.bytes, kBytes, move.peer, comm_, stream)
                       : api().receive(at, move.bytes, kBytes, move.peer, comm_, stream);
        if (result != kSuccess && result != kInProgress) {
          break;
        }
      }
      const int end = api().groupEnd();  // also after an error
      require(result, call, comm_);
      require(end, "ncclGroupEnd", comm_);
    });
  }

  void doGather(device::Queue& queue,
                device::Address part,
                device::Address whole,
                std::size_t bytes,
                device::PeerWait wait) override {
    const cudaStream_t stream = streamOf(queue);
    work("ncclAllGather", stream, wait, [&] {
      require(api().allGather(pointerTo(part), pointerTo(whole), bytes, kBytes, comm_, stream),
              "ncclAllGather",
              comm_);
    });
  }

  cudaStream_t streamOf(device::Queue& queue) const {
    auto& own = static_cast<CudaQueue&>(queue);
    SLUICE_CHECK(own.gpu() == gpu_, "GPU {} copies for GPU {}", own.gpu(), gpu_);
    return own.stream();
  }

  /// Gives work to the stream and waits until it is done.
  template <class F>
  void work(std::string_view call, cudaStream_t stream, device::PeerWait wait, const F& give) {
    SLUICE_CHECK(comm_ != nullptr, "a group that was given up is used again");
    select(gpu_);
    guard([&] {
      give();
      settle(call, wait);
      for (Looks looks;; looks.next()) {
        const cudaError_t result = cudaStreamQuery(stream);
        if (result != cudaErrorNotReady) {
          check(result, "the work of a stream");
          return;
        }
        static_cast<void>(cudaGetLastError());
        requireGood(call);
        wait();
      }
    });
  }

  int state(std::string_view call) const {
    int state = kSuccess;
    require(api().state(comm_, &state), "ncclCommGetAsyncError", comm_);
    require(state, call, comm_);
    return state;
  }
  void requireGood(std::string_view call) const { static_cast<void>(state(call)); }

  /// Waits until the library has done its part of a call.
  void settle(std::string_view call, device::PeerWait wait) const {
    for (Looks looks; state(call) == kInProgress; looks.next()) {
      wait();
    }
  }

  /// After an error or a wait that was ended nothing of the group is left on the GPU.
  template <class F>
  void guard(const F& f) {
    try {
      f();
    } catch (...) {
      if (comm_ != nullptr) {
        static_cast<void>(api().abort(comm_));
        comm_ = nullptr;
      }
      throw;
    }
  }

  /// The library's own end may wait for members that are lost.
  bool endsInTime() const {
    constexpr std::chrono::seconds kLongest{5};
    const Clock::time_point end = Clock::now() + kLongest;
    int state = api().finalize(comm_);
    for (Looks looks; state == kInProgress && Clock::now() < end; looks.next()) {
      if (api().state(comm_, &state) != kSuccess) {
        return false;
      }
    }
    return state == kSuccess;
  }

  int gpu_;
  Comm comm_ = nullptr;  // null: it was given up
};

/// The name that no other GPU has.
std::string placeOf(int gpu) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
  std::string text;
  for (const char byte : properties.uuid.bytes) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

class Port final : public device::PeerPort {
 public:
  explicit Port(int gpu) : gpu_(gpu) {}

 private:
  std::string place() const override {
    std::call_once(isKnown_, [this] { place_ = placeOf(gpu_); });
    return place_;
  }

  Invitation invite() override {
    Id id;
    const Api& library = open();
    select(gpu_);
    require(library.getUniqueId(&id), "ncclGetUniqueId");
    const auto* bytes = reinterpret_cast<const std::byte*>(id.bytes.data());
    return {bytes, bytes + id.bytes.size()};
  }

  std::unique_ptr<device::PeerGroup> join(const Invitation& invitation,
                                          std::int32_t rank,
                                          std::int32_t size,
                                          device::PeerWait wait) override {
    static_cast<void>(open());
    Id id;
    SLUICE_CHECK(
        invitation.size() == id.bytes.size(), "an invitation of {} bytes", invitation.size());
    std::memcpy(id.bytes.data(), invitation.data(), invitation.size());
    return std::make_unique<Group>(gpu_, id, rank, size, wait);
  }

  static const Api& open() {
    try {
      return api();
    } catch (const DeviceError& error) {
      raise<DeviceError>(
          "SLUICE_NCCL asks for copies by NCCL: {}; without SLUICE_NCCL devices of kind 'cuda' "
          "work in one process",
          error.what());
    }
  }

  int gpu_;
  mutable std::once_flag isKnown_;  // asking the driver takes longer than a copy
  mutable std::string place_;
};

}  // namespace

std::unique_ptr<device::PeerPort> makePort(int gpu) {
  return std::make_unique<Port>(gpu);
}

}  // namespace sluice::devices::cuda::nccl
