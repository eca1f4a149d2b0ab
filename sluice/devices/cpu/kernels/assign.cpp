// assign with modes add, sum and mean: accumulates into the variable's own slice, which is read and
// written. With sum and mean the first micro-batch of a round overwrites what the round before left
// there.
#include <algorithm>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/blocks.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/ops/elementwise.h"

namespace sluice::devices::cpu {
namespace {

constexpr std::int64_t kTile = 1 << 15;

/// One element of the running sum or mean.
template <class T>
T accumulated(T old, T value, std::int64_t microBatch, bool mean) {
  if constexpr (std::is_same_v<T, bool>) {
    return old || value;
  } else {
    if (!mean) {
      return ops::narrow<T>(ops::widen(old) + ops::widen(value));
    }
    const auto f = static_cast<double>(microBatch);
    return ops::narrow<T>(static_cast<double>(ops::widen(old)) * (f / (f + 1)) +
                          static_cast<double>(ops::widen(value)) / (f + 1));
  }
}

/// float32 by vector code, computed in float32: every step is rounded, as in the plain loop.
class FloatTile {
 public:
  void add(const float* value, float* sum, std::int64_t n) const {
    add_({.in = {sum, value}, .out = sum, .n = n});
  }

  void average(const float* value, float* mean, std::int64_t n, std::int64_t microBatch) const {
    constexpr std::int64_t kBlock = 1024;
    const auto f = static_cast<float>(microBatch);
    const float keep = f / (f + 1);
    const float count = f + 1;
    float part[kBlock];
    for (std::int64_t i = 0; i < n; i += kBlock) {
      const std::int64_t m = std::min(kBlock, n - i);
      div_({.in = {value + i, &count}, .single = 0b10, .out = part, .n = m});
      mul_({.in = {mean + i, &keep}, .single = 0b10, .out = mean + i, .n = m});
      add_({.in = {mean + i, part}, .out = mean + i, .n = m});
    }
  }

 private:
  BlockFunction add_ = findF32Function("add");
  BlockFunction mul_ = findF32Function("mul");
  BlockFunction div_ = findF32Function("div");
};

class Accumulate : public Kernel {
 public:
  Accumulate(const TensorType& type, std::string_view mode)
      : dtype_(type.dtype),
        elements_(type.shape.elements()),
        mean_(mode == "mean"),
        keeps_(mode == "add") {}

  void run(const KernelRun& run) override {
    run.workers.parallelFor((elements_ + kTile - 1) / kTile, [&](std::int64_t tile) {
      const std::int64_t begin = tile * kTile;
      runTile(run, begin, std::min(kTile, elements_ - begin));
    });
  }

 private:
  void runTile(const KernelRun& run, std::int64_t begin, std::int64_t n) const {
    const std::int64_t microBatch = run.info.microBatchInRound;
    dispatch(dtype_, [&]<class T>(T) {
      const T* value = run.in<T>(0) + begin;
      T* slice = run.out<T>(0) + begin;
      if (microBatch == 0 && !keeps_) {
        std::memmove(slice, value, static_cast<std::size_t>(n) * sizeof(T));
        return;
      }
      if constexpr (std::is_same_v<T, float>) {
        mean_ ? floats_.average(value, slice, n, microBatch) : floats_.add(value, slice, n);
      } else {
        for (std::int64_t i = 0; i < n; ++i) {
          slice[i] = accumulated(slice[i], value[i], microBatch, mean_);
        }
      }
    });
  }

  DType dtype_;
  std::int64_t elements_;
  bool mean_;
  bool keeps_;  // what the round before left
  FloatTile floats_;
};

}  // namespace

std::unique_ptr<Kernel> makeAssign(const ir::OpView& op, const device::Choice&) {
  const std::string& mode = op.attrs.text("mode");
  SLUICE_CHECK(mode != "set", "an assign of mode '{}' as a kernel", mode);
  return std::make_unique<Accumulate>(op.inputs[0], mode);
}

}  // namespace sluice::devices::cpu
