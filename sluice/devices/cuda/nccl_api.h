// The functions of NCCL that nccl.h uses, with the library's names, numbers and structures. Private
// to the device.
#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <string_view>

#include <cuda_runtime_api.h>

#include "sluice/devices/cuda/library.h"

namespace sluice::devices::cuda::nccl {

inline constexpr int kOldest = 21800;

// The library's numbers, as its header has them.
inline constexpr int kSuccess = 0;
inline constexpr int kInProgress = 7;
inline constexpr int kBytes = 0;  // the type of elements

using Comm = struct Communicator*;

struct Id {
  std::array<char, 128> bytes{};
};

/// The options of version 2.18, which later versions take, too.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = kOldest;
  int blocking = 0;  // calls return while they still wait for others
  int clusters = INT_MIN;
  int leastBlocks = INT_MIN;
  int mostBlocks = INT_MIN;
  const char* network = nullptr;
  int share = INT_MIN;
};

/// Opens the library. Throws DeviceError that says what is missing, or that it is too old.
struct Api {
  Api();

  Library library;
  int (*getVersion)(int*) = nullptr;
  const char* (*errorText)(int) = nullptr;
  const char* (*lastError)(Comm) = nullptr;
  int (*getUniqueId)(Id*) = nullptr;
  int (*init)(Comm*, int size, Id, int rank, Config*) = nullptr;
  int (*state)(Comm, int*) = nullptr;
  int (*finalize)(Comm) = nullptr;
  int (*destroy)(Comm) = nullptr;
  int (*abort)(Comm) = nullptr;
  int (*groupStart)() = nullptr;
  int (*groupEnd)() = nullptr;
  int (*send)(const void*, std::size_t, int type, int peer, Comm, cudaStream_t) = nullptr;
  int (*receive)(void*, std::size_t, int type, int peer, Comm, cudaStream_t) = nullptr;
  int (*allGather)(const void*, void*, std::size_t, int type, Comm, cudaStream_t) = nullptr;
};

/// Opened once; whatever its constructor throws.
const Api& api();

/// Throws DeviceError unless a call has succeeded or goes on.
void require(int result, std::string_view call, Comm comm = nullptr);

}  // namespace sluice::devices::cuda::nccl
