// CPU kernels: the object that runs one op on the host's cores, and how it is made. The device's
// table (sluice/device/kernel_table.h) decides which kernel an op gets.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "sluice/base/workers.h"
#include "sluice/device/kernel_table.h"
#include "sluice/ir/op_def.h"

namespace sluice::devices::cpu {

/// One run of a kernel: operands in the layouts of its Choice.
struct KernelRun {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  void* scratch = nullptr;
  ir::RunInfo info;
  Workers& workers;

  template <class T>
  const T* in(std::size_t i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <class T>
  T* out(std::size_t i) const {
    return static_cast<T*>(outputs[i]);
  }
};

class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;
  virtual void run(const KernelRun& run) = 0;
};

/// A line of the device's table, with the factory of the kernel that the line stands for.
struct KernelEntry : device::KernelEntry {
  std::unique_ptr<Kernel> (*make)(const ir::OpView&, const device::Choice&) = nullptr;
};

}  // namespace sluice::devices::cpu
