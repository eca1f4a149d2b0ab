#include "sluice/devices/cpu/cpu_segment.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <omp.h>

#include "sluice/base/cancelled.h"
#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/ops/elementwise.h"

namespace sluice::devices::cpu {

OneOmpThread::OneOmpThread() : before_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}

OneOmpThread::~OneOmpThread() {
  omp_set_num_threads(before_);
}

std::unique_ptr<Workers> makeTeam(int threads) {
  return std::make_unique<Workers>(threads, [](int) { omp_set_num_threads(1); });
}

CpuSegment::CpuSegment(std::span<const device::KernelCall> calls) {
  const OneOmpThread one;  // some primitives remember the number of threads that they are made with
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  for (const device::KernelCall& call : calls) {
    try {
      calls_.push_back({makeKernel(call.view(), call.choice),
                        {call.inputs.begin(), call.inputs.end()},
                        {call.outputs.begin(), call.outputs.end()},
                        call.scratch,
                        std::string(call.def->name) + " '" + call.name + "'"});
    } catch (Error& error) {
      error.at(call.name);
      throw;
    }
    inputs = std::max(inputs, call.inputs.size());
    outputs = std::max(outputs, call.outputs.size());
    used_.insert(used_.end(), call.inputs.begin(), call.inputs.end());
    used_.insert(used_.end(), call.outputs.begin(), call.outputs.end());
    used_.push_back(call.scratch);
  }
  std::ranges::sort(used_);
  used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
  std::erase_if(used_, [](std::int32_t buffer) { return buffer < 0; });
  in_.resize(inputs);
  out_.resize(outputs);
}

void CpuSegment::run(std::span<std::byte* const> buffers,
                     const ir::RunInfo& info,
                     Workers& workers,
                     const std::function<bool()>& isStopped) {
  const OneOmpThread one;
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

namespace {

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

}  // namespace

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

}  // namespace sluice::devices::cpu
