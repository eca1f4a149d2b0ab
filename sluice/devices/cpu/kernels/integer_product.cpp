// matmul and conv of i32, which quantized models use: a row of the result grows by one scaled row
// of an operand after the other. Sums wrap, as the reference's do, so any order gives its bits.
#include <algorithm>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/vector_targets.h"
#include "sluice/ops/conv.h"
#include "sluice/ops/matmul.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/integer_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// out += factor x. Unsigned: signed sums may not wrap.
void addScaled(const std::uint32_t* x, std::uint32_t factor, std::uint32_t* out, std::int64_t n) {
  const hn::CappedTag<std::uint32_t, 16> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, out + i), hn::Mul(hn::LoadU(d, x + i), scale)), d, out + i);
  }
  for (; i < n; ++i) {
    out[i] += x[i] * factor;
  }
}

}  // namespace
}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::devices::cpu {
namespace {

HWY_EXPORT(addScaled);

class IntegerMatMul : public Kernel {
 public:
  explicit IntegerMatMul(const ir::OpView& op)
      : d_(ops::matmulDims(op)), batchA_(d_.batchA, d_.batch), batchB_(d_.batchB, d_.batch) {}

  void run(const KernelRun& run) override {
    const std::int64_t rows = d_.batch.elements() * d_.m;
    const std::int64_t perTile = itemsPerTile(d_.n * d_.k);
    run.workers.parallelFor(ceilDiv(rows, perTile), [&](std::int64_t tile) {
      for (std::int64_t row = tile * perTile; row < std::min(rows, (tile + 1) * perTile); ++row) {
        const std::int64_t batch = row / d_.m;
        product(run.in<std::uint32_t>(0) + batchA_(batch) * d_.m * d_.k + row % d_.m * d_.strideAm,
                run.in<std::uint32_t>(1) + batchB_(batch) * d_.k * d_.n,
                run.out<std::uint32_t>(0) + row * d_.n);
      }
    });
  }

 private:
  void product(const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* out) const {
    if (d_.strideBn == 1) {
      const auto add = HWY_DYNAMIC_DISPATCH(addScaled);
      std::fill_n(out, d_.n, 0U);
      for (std::int64_t k = 0; k < d_.k; ++k) {
        add(b + k * d_.strideBk, a[k * d_.strideAk], out, d_.n);
      }
      return;
    }
    for (std::int64_t j = 0; j < d_.n; ++j) {
      std::uint32_t sum = 0;
      for (std::int64_t k = 0; k < d_.k; ++k) {
        sum += a[k * d_.strideAk] * b[k * d_.strideBk + j * d_.strideBn];
      }
      out[j] = sum;
    }
  }

  ops::MatMulDims d_;
  ops::BroadcastIndex batchA_;
  ops::BroadcastIndex batchB_;
};

class IntegerConv : public Kernel {
 public:
  explicit IntegerConv(const ir::OpView& op) : d_(ops::convDims(op)) {}

  void run(const KernelRun& run) override {
    const std::int64_t maps = d_.batch * d_.outChannels;
    const std::int64_t inputs = d_.inPerGroup();
    run.workers.parallelFor(maps, [&](std::int64_t map) {
      const std::int64_t image = map / d_.outChannels;
      const std::int64_t out = map % d_.outChannels;
      const std::int64_t first = image * d_.inChannels + out / d_.outPerGroup() * inputs;
      std::uint32_t* y = run.out<std::uint32_t>(0) + map * d_.outSize();
      std::fill_n(y, d_.outSize(), 0U);
      for (std::int64_t c = 0; c < inputs; ++c) {
        addMap(run.in<std::uint32_t>(0) + (first + c) * d_.inSize(),
               run.in<std::uint32_t>(1) + (out * inputs + c) * d_.kernelSize(),
               y);
      }
    });
  }

 private:
  /// One input map times its kernel, row by row of the result.
  void addMap(const std::uint32_t* x, const std::uint32_t* w, std::uint32_t* y) const {
    for (std::int64_t row = 0; row < d_.out[0] * d_.out[1]; ++row) {
      for (std::int64_t k = 0; k < d_.kernel[0] * d_.kernel[1]; ++k) {
        const std::int64_t i0 = d_.position(0, row / d_.out[1], k / d_.kernel[1]);
        const std::int64_t i1 = d_.position(1, row % d_.out[1], k % d_.kernel[1]);
        if (i0 >= 0 && i0 < d_.in[0] && i1 >= 0 && i1 < d_.in[1]) {
          addRow(x + (i0 * d_.in[1] + i1) * d_.in[2], w + k * d_.kernel[2], y + row * d_.out[2]);
        }
      }
    }
  }

  void addRow(const std::uint32_t* x, const std::uint32_t* w, std::uint32_t* y) const {
    const std::int64_t stride = d_.strides[2];
    const auto add = HWY_DYNAMIC_DISPATCH(addScaled);
    for (std::int64_t k = 0; k < d_.kernel[2]; ++k) {
      // Positions that lie inside the input: from + o stride in [0, in).
      const std::int64_t from = d_.position(2, 0, k);
      const std::int64_t begin = from >= 0 ? 0 : ceilDiv(-from, stride);
      const std::int64_t end =
          from >= d_.in[2] ? 0 : std::min(d_.out[2], ceilDiv(d_.in[2] - from, stride));
      if (stride == 1 && begin < end) {
        add(x + from + begin, w[k], y + begin, end - begin);
        continue;
      }
      for (std::int64_t o = begin; o < end; ++o) {
        y[o] += x[from + o * stride] * w[k];
      }
    }
  }

  ops::ConvDims d_;
};

}  // namespace

bool supportsIntegerProduct(const ir::OpView& op) {
  return op.inputs[0].dtype == DType::I32 || op.inputs[0].dtype == DType::U32;
}

std::unique_ptr<Kernel> makeIntegerMatMul(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<IntegerMatMul>(op);
}

std::unique_ptr<Kernel> makeIntegerConv(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<IntegerConv>(op);
}

}  // namespace sluice::devices::cpu
#endif  // HWY_ONCE
