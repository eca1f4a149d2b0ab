#include "sluice/devices/cpu/cpu_device.h"

#include <cstdlib>
#include <cstring>
#include <type_traits>

#include <omp.h>

#include "sluice/base/cancelled.h"
#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/ops/elementwise.h"

namespace sluice::devices::cpu {
namespace {

constexpr std::size_t kAlignment = 64;

/// One oneDNN thread per primitive (rule R3); the setting is per thread.
void useOneOmpThread() {
  omp_set_num_threads(1);
}

class CpuExecutable : public device::Executable {
 public:
  CpuExecutable(const device::KernelTable& table, std::span<const device::KernelCall> calls) {
    for (const device::KernelCall& call : calls) {
      try {
        calls_.push_back({table.make(call.view(), call.choice),
                          {call.inputs.begin(), call.inputs.end()},
                          {call.outputs.begin(), call.outputs.end()},
                          call.scratch,
                          std::string(call.def->name) + " '" + call.name + "'"});
      } catch (Error& error) {
        error.at(call.name);
        throw;
      }
      numInputs_ = std::max(numInputs_, call.inputs.size());
      numOutputs_ = std::max(numOutputs_, call.outputs.size());
    }
    in_.resize(numInputs_);
    out_.resize(numOutputs_);
  }

  template <class IsStopped>
  void run(std::span<std::byte* const> buffers,
           ir::RunInfo info,
           Workers& workers,
           const IsStopped& isStopped) {
    for (Call& call : calls_) {
      if (isStopped()) {
        raise<Cancelled>("the step was given up before {}", call.name);
      }
      for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        in_[i] = buffers[static_cast<std::size_t>(call.inputs[i])];
      }
      for (std::size_t i = 0; i < call.outputs.size(); ++i) {
        out_[i] = buffers[static_cast<std::size_t>(call.outputs[i])];
      }
      try {
        call.kernel->run(
            {{in_.data(), call.inputs.size()},
             {out_.data(), call.outputs.size()},
             call.scratch < 0 ? nullptr : buffers[static_cast<std::size_t>(call.scratch)],
             info,
             workers});
      } catch (Error& error) {
        error.at(call.name);
        throw;
      }
    }
  }

 private:
  struct Call {
    std::unique_ptr<device::Kernel> kernel;
    std::vector<std::int32_t> inputs;
    std::vector<std::int32_t> outputs;
    std::int32_t scratch;
    std::string name;
  };
  std::vector<Call> calls_;
  std::size_t numInputs_ = 0;
  std::size_t numOutputs_ = 0;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

/// A plain loop: compilers make vector code of it.
template <class T>
void addTo(std::span<T> sums, const T* terms) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      sums[i] += terms[i];
    } else {
      sums[i] = ops::narrow<T>(ops::widen(sums[i]) + ops::widen(terms[i]));
    }
  }
}

/// Additions of one element keep the order of `from`.
void sumElements(void* to, std::span<const void* const> from, DType type, std::int64_t elements) {
  dispatch(type, [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, bool>) {
      const std::span<T> sums(static_cast<T*>(to), static_cast<std::size_t>(elements));
      std::memcpy(to, from[0], sums.size_bytes());
      for (const void* terms : from.subspan(1)) {
        addTo(sums, static_cast<const T*>(terms));
      }
    }
  });
}

class CpuQueue : public device::Queue {
 public:
  explicit CpuQueue(Workers& workers) : workers_(workers) {}

 private:
  void doLaunch(device::Executable& executable,
                std::span<std::byte* const> buffers,
                ir::RunInfo info) override {
    static_cast<CpuExecutable&>(executable).run(buffers, info, workers_, [this] {
      return isStopped();
    });
  }
  void doCopy(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void doSum(void* to,
             std::span<const void* const> from,
             DType type,
             std::int64_t elements) override {
    sumElements(to, from, type, elements);
  }
  void doFinish() override {}

  Workers& workers_;
};

class CpuDevice : public device::Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options)
      : workers_(options.threads, [](int) { useOneOmpThread(); }),
        table_("cpu",
               options.referenceOnly ? std::span<const device::KernelEntry>() : kernelEntries(),
               mergedTuning(options.tuning),
               true) {
    info_ = {.kind = "cpu",
             .description = describeCpu(),
             .index = options.index,
             .threads = options.threads,
             .memoryBytes = options.memoryBytes};
  }

  const device::DeviceInfo& info() const override { return info_; }
  const device::KernelTable& kernels() const override { return table_; }
  void enterThread() override { useOneOmpThread(); }
  std::unique_ptr<device::Queue> makeQueue() override {
    return std::make_unique<CpuQueue>(workers_);
  }

 private:
  device::Memory doAllocate(std::size_t bytes) override {
    const std::size_t rounded =
        (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
    if (data == nullptr) {
      raise<OutOfMemory>("the host cannot give {} bytes to cpu device {}", bytes, info_.index);
    }
    return {data, bytes, [](std::byte* p) { std::free(p); }};
  }
  std::unique_ptr<device::Executable> doPrepare(
      std::span<const device::KernelCall> calls) override {
    useOneOmpThread();
    return std::make_unique<CpuExecutable>(table_, calls);
  }

  device::DeviceInfo info_;
  Workers workers_;
  device::KernelTable table_;
};

}  // namespace

std::unique_ptr<device::Device> makeCpuDevice(const CpuDeviceOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

const device::KernelTable& cpuKernelTable() {
  static const device::KernelTable kTable("cpu", kernelEntries(), mergedTuning({}), true);
  return kTable;
}

}  // namespace sluice::devices::cpu
