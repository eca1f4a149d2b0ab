// CUDA kernels: the object that gives one op to a stream, and how it is made. The device's table
// (sluice/device/kernel_table.h) decides which kernel an op gets. Private to the device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <cuda_runtime_api.h>

#include "sluice/device/kernel_table.h"
#include "sluice/devices/cuda/source.h"
#include "sluice/ir/op_def.h"

namespace sluice {
class FileCache;
}

namespace sluice::devices::cuda {

/// The numbers of a step, as kernels read them: `Run` of the prelude.
struct RunNumbers {
  std::uint64_t seed = 0;
  std::int64_t microBatch = 0;
  std::int64_t microBatchInRound = 0;
  std::int32_t replica = 0;
};

/// What a kernel found wrong with its operands: `Fault` of the prelude, in pinned memory. The first
/// one of a device is kept until a queue has reported it.
struct Fault {
  std::int32_t taken = 0;
  std::int32_t kind = 0;   ///< 1: index, 2: label
  std::int32_t call = 0;   ///< number in the names of the device
  std::int32_t ready = 0;  ///< the rest is written
  std::int64_t value = 0;
  std::int64_t limit = 0;
};

/// One run of a kernel; all pointers are the GPU's.
struct KernelRun {
  cudaStream_t stream = nullptr;
  std::span<void* const> inputs;
  std::span<void* const> outputs;
  void* scratch = nullptr;
  RunNumbers* run = nullptr;
  Fault* fault = nullptr;
  int call = 0;
};

class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;
  virtual void launch(const KernelRun& run) = 0;
  virtual bool readsRun() const { return false; }
};

/// What kernels are made with.
struct MakeContext {
  std::string architecture;  ///< "sm_90"
  int gpu = 0;
  std::shared_ptr<const FileCache> cache = nullptr;  ///< of compiled code; null: none
};

/// A line of the device's table, with what the line stands for: the source of a generated kernel,
/// or the factory of another one.
struct KernelEntry : device::KernelEntry {
  Source (*generate)(const ir::OpView&) = nullptr;
  std::unique_ptr<Kernel> (*make)(const ir::OpView&,
                                  const device::Choice&,
                                  const MakeContext&) = nullptr;
  /// Instead of `generate`, for kernels that take several storage layouts.
  Source (*generateFor)(const ir::OpView&, const device::Choice&) = nullptr;

  bool isGenerated() const { return generate != nullptr || generateFor != nullptr; }
  Source source(const ir::OpView& view, const device::Choice& choice) const {
    return generate != nullptr ? generate(view) : generateFor(view, choice);
  }
};

/// A kernel that runs the stages of a compiled source.
std::unique_ptr<Kernel> makeGenerated(const Source& source, const MakeContext& context);

}  // namespace sluice::devices::cuda
