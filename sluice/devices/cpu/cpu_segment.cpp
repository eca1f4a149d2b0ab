#include "sluice/devices/cpu/cpu_segment.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <type_traits>

#include <omp.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/devices/cpu/kernels/tile_kernel.h"
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
  const auto operands = [&](std::span<const std::int32_t> buffers,
                            const std::vector<TensorType>& types) {
    std::vector<Operand> made;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      made.push_back({buffers[i], types[i].bytes()});
      used_.push_back(buffers[i]);
    }
    return made;
  };
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  for (const device::KernelCall& call : calls) {
    try {
      std::unique_ptr<Kernel> kernel = makeKernel(call.view(), call.choice);
      const auto* tiled = dynamic_cast<const TileKernel*>(kernel.get());
      calls_.push_back({std::move(kernel),
                        tiled,
                        operands(call.inputs, call.inputTypes),
                        operands(call.outputs, call.outputTypes),
                        call.scratch,
                        std::string(call.def->name) + " '" + call.name + "'",
                        inputs,
                        outputs});
    } catch (Error& error) {
      error.at(call.name);
      throw;
    }
    inputs += call.inputs.size();
    outputs += call.outputs.size();
    used_.push_back(call.scratch);
  }
  std::ranges::sort(used_);
  used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
  std::erase_if(used_, [](std::int32_t buffer) { return buffer < 0; });
  in_.resize(inputs);
  out_.resize(outputs);
  rowEnds_.resize(calls_.size());
  found_.resize(used_.size());
  read_.reserve(inputs);
  written_.reserve(outputs);
  firstTiles_.reserve(calls_.size() + 1);
}

/// Does nothing if the addresses are those of the last time.
void CpuSegment::findRows(std::span<std::byte* const> buffers) {
  bool isSame = !used_.empty();
  for (std::size_t i = 0; i < used_.size(); ++i) {
    const std::byte* now = buffers[static_cast<std::size_t>(used_[i])];
    isSame = isSame && now == found_[i];
    found_[i] = now;
  }
  if (isSame) {
    return;
  }
  for (std::size_t first = 0; first < calls_.size(); first = rowEnds_[first]) {
    rowEnds_[first] = endOfRow(first, buffers);
  }
}

/// The end of the longest row of calls from `first` on that do not depend on each other.
std::size_t CpuSegment::endOfRow(std::size_t first, std::span<std::byte* const> buffers) {
  read_.clear();
  written_.clear();
  const auto extent = [&](const Operand& operand) -> Extent {
    const std::byte* begin = buffers[static_cast<std::size_t>(operand.buffer)];
    return {begin, begin + operand.bytes};
  };
  const auto meets = [](const std::vector<Extent>& extents, const Extent& one) {
    return std::ranges::any_of(extents, [&](const Extent& other) {
      return one.begin < other.end && other.begin < one.end;
    });
  };
  std::size_t end = first;
  for (; end < calls_.size() && calls_[end].tiled != nullptr; ++end) {
    const Call& call = calls_[end];
    const bool depends =
        std::ranges::any_of(call.inputs,
                            [&](const Operand& in) { return meets(written_, extent(in)); }) ||
        std::ranges::any_of(call.outputs, [&](const Operand& out) {
          return meets(written_, extent(out)) || meets(read_, extent(out));
        });
    if (depends) {
      break;
    }
    std::ranges::transform(call.inputs, std::back_inserter(read_), extent);
    std::ranges::transform(call.outputs, std::back_inserter(written_), extent);
  }
  return std::max(end, first + 1);
}

KernelRun CpuSegment::prepare(Call& call,
                              std::span<std::byte* const> buffers,
                              const ir::RunInfo& info,
                              Workers& workers) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    in_[call.in + i] = buffers[static_cast<std::size_t>(call.inputs[i].buffer)];
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    out_[call.out + i] = buffers[static_cast<std::size_t>(call.outputs[i].buffer)];
  }
  return {{in_.data() + call.in, call.inputs.size()},
          {out_.data() + call.out, call.outputs.size()},
          call.scratch < 0 ? nullptr : buffers[static_cast<std::size_t>(call.scratch)],
          info,
          workers};
}

void CpuSegment::runRow(std::span<Call> row,
                        std::span<std::byte* const> buffers,
                        const ir::RunInfo& info,
                        Workers& workers) {
  firstTiles_.assign(1, 0);
  for (Call& call : row) {
    prepare(call, buffers, info, workers);
    firstTiles_.push_back(firstTiles_.back() + call.tiled->tiles());
  }
  workers.parallelFor(firstTiles_.back(), [&](std::int64_t tile) {
    const auto after = std::ranges::upper_bound(firstTiles_, tile);
    const auto at = static_cast<std::size_t>(after - firstTiles_.begin()) - 1;
    const Call& call = row[at];
    try {
      call.tiled->runTile({{in_.data() + call.in, call.inputs.size()},
                           {out_.data() + call.out, call.outputs.size()},
                           nullptr,
                           info,
                           workers},
                          tile - firstTiles_[at]);
    } catch (Error& error) {
      error.at(call.name);
      throw;
    }
  });
}

void CpuSegment::run(std::span<std::byte* const> buffers,
                     const ir::RunInfo& info,
                     Workers& workers,
                     const std::function<bool()>& isStopped) {
  const OneOmpThread one;
  const bool joins = workers.threads() > 1;
  if (joins) {
    findRows(buffers);
  }
  for (std::size_t i = 0; i < calls_.size();) {
    Call& call = calls_[i];
    if (isStopped()) {
      raise<Cancelled>("the step was given up before {}", call.name);
    }
    const std::size_t end = joins ? rowEnds_[i] : i + 1;
    if (end > i + 1) {
      runRow(std::span(calls_).subspan(i, end - i), buffers, info, workers);
    } else {
      try {
        call.kernel->run(prepare(call, buffers, info, workers));
      } catch (Error& error) {
        error.at(call.name);
        throw;
      }
    }
    i = end;
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
