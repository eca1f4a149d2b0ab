// batch_norm and batch_norm_grad of float32 and float64. Grains of rows give partial sums per
// column, which are added in order, in double; a grain's squares are taken around its own mean
// while it is in cache, so that x is read from memory twice, and a mean far from zero costs no
// digits.
#include "sluice/devices/cpu/kernels/batch_norm.h"

#include <array>
#include <cmath>

#include "sluice/devices/cpu/kernels/conv_plan.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/vector_targets.h"
// Highway's order of includes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sluice/devices/cpu/kernels/batch_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sluice/devices/cpu/kernels/row_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::devices::cpu::HWY_NAMESPACE {
namespace {

/// to[c] = sum over the rows of a grain of f(loader, offset of the row, c), by chunks of columns.
template <class T, class F>
HWY_INLINE void sumGrain(const ChannelRows& plan, std::int64_t grain, T* to, F f) {
  const std::int64_t first = grain * plan.perGrain;
  const std::int64_t width = plan.width();
  constexpr auto kChunk = static_cast<std::int64_t>(kMaxColumns);
  for (std::int64_t column = 0; column < width; column += kChunk) {
    foldColumns<SumFold>(
        {first, first + plan.grainRows(grain)},
        static_cast<std::size_t>(std::min(kChunk, width - column)),
        to + column,
        [width](std::int64_t r) { return r * width; },
        [&](auto load, std::int64_t row, std::size_t c)
            HWY_ATTR { return f(load, row, static_cast<std::size_t>(column) + c); });
  }
}

template <class T>
void grainMoments(const ChannelRows& plan, const T* x, std::int64_t grain, T* mean, T* squares) {
  sumGrain(plan, grain, mean, [x](auto load, std::int64_t row, std::size_t c) HWY_ATTR {
    return load(x + row + c);
  });
  const auto count = hn::Set(LaneTag<T>(), static_cast<T>(plan.grainRows(grain)));
  const auto width = static_cast<std::size_t>(plan.width());
  mapRow(width, mean, [&](auto load, std::size_t c) HWY_ATTR {
    return hn::Div(load(mean + c), count);
  });
  sumGrain(plan, grain, squares, [=](auto load, std::int64_t row, std::size_t c) HWY_ATTR {
    const auto v = hn::Sub(load(x + row + c), load(mean + c));
    return hn::Mul(v, v);
  });
}

template <class T>
void normalizeRow(const NormColumns<T>& by, const T* x, T* y, std::size_t width) {
  const T* mean = by.mean;
  const T* scale = by.scale;
  const T* shift = by.shift;
  mapRow(width, y, [=](auto load, std::size_t c) HWY_ATTR {
    const auto centred = hn::Sub(load(x + c), load(mean + c));
    return hn::Add(hn::Mul(centred, load(scale + c)), load(shift + c));
  });
}

template <class T>
void grainGradSums(
    const ChannelRows& plan, const NormGradInputs<T>& in, std::int64_t grain, T* sum, T* dot) {
  const T* x = in.x;
  const T* dy = in.dy;
  const T* mean = in.mean;
  sumGrain(plan, grain, sum, [=](auto load, std::int64_t row, std::size_t c) HWY_ATTR {
    return load(dy + row + c);
  });
  sumGrain(plan, grain, dot, [=](auto load, std::int64_t row, std::size_t c) HWY_ATTR {
    return hn::Mul(load(dy + row + c), hn::Sub(load(x + row + c), load(mean + c)));
  });
}

template <class T>
void gradientRow(const NormColumns<T>& by, const T* x, const T* dy, T* dx, std::size_t width) {
  const T* mean = by.mean;
  const T* scale = by.scale;
  const T* shift = by.shift;
  const T* slope = by.slope;
  mapRow(width, dx, [=](auto load, std::size_t c) HWY_ATTR {
    const auto centred = hn::Sub(load(x + c), load(mean + c));
    const auto own = hn::Sub(load(dy + c), load(shift + c));
    return hn::Mul(load(scale + c), hn::Sub(own, hn::Mul(centred, load(slope + c))));
  });
}

template <class T>
BatchNormLoops<T> loopsOf() {
  return {grainMoments<T>, normalizeRow<T>, grainGradSums<T>, gradientRow<T>};
}

}  // namespace

BatchNormLoops<float> floatBatchNormLoops() {
  return loopsOf<float>();
}
BatchNormLoops<double> doubleBatchNormLoops() {
  return loopsOf<double>();
}

}  // namespace sluice::devices::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "sluice/ops/norm.h"

namespace sluice::devices::cpu {
namespace {

HWY_EXPORT(floatBatchNormLoops);
HWY_EXPORT(doubleBatchNormLoops);

template <class T>
BatchNormLoops<T> batchNormLoops() {
  if constexpr (std::is_same_v<T, double>) {
    return HWY_DYNAMIC_DISPATCH(doubleBatchNormLoops)();
  } else {
    return HWY_DYNAMIC_DISPATCH(floatBatchNormLoops)();
  }
}

/// Elements of a grain: with dy, a core's cache holds it twice.
constexpr std::int64_t kGrainElements = 32768;
/// The columns of a row that vectors are worth.
constexpr std::int64_t kWideRow = 256;
/// Channels whose totals one tile adds up.
constexpr std::int64_t kChannelBlock = 16;

ChannelRows planRows(const ir::OpView& op) {
  const ops::ChannelDims d = ops::channelDims(op);
  const std::int64_t rows = d.count();
  std::int64_t wide =
      std::min(kWideRow / std::max<std::int64_t>(d.channels, 1), std::max<std::int64_t>(rows, 1));
  while (wide > 1 && rows % wide != 0) {
    --wide;
  }
  wide = std::max<std::int64_t>(wide, 1);
  const std::int64_t width = std::max<std::int64_t>(d.channels * wide, 1);
  return {.channels = d.channels,
          .wide = wide,
          .rows = rows / wide,
          .perGrain = std::max<std::int64_t>(16, kGrainElements / width)};
}

/// Two partial results per column and grain, then what is known per column.
template <class T>
struct Scratch {
  T* first;
  T* second;
  T* mean;
  T* scale;
  T* shift;
  T* slope;

  Scratch(const ChannelRows& plan, void* memory)
      : first(static_cast<T*>(memory)),
        second(first + plan.grains() * plan.width()),
        mean(second + plan.grains() * plan.width()),
        scale(mean + plan.width()),
        shift(scale + plan.width()),
        slope(shift + plan.width()) {}
  static std::size_t bytes(const ChannelRows& plan) {
    return static_cast<std::size_t>((2 * plan.grains() + 4) * plan.width()) * sizeof(T);
  }
  NormColumns<T> columns() const { return {mean, scale, shift, slope}; }
};

using ChannelSums = std::array<double, kChannelBlock>;

struct ChannelRange {
  std::int64_t first;
  std::int64_t count;  ///< at most kChannelBlock
};

/// Calls body for blocks of channels.
template <class F>
void forChannels(Workers& workers, std::int64_t channels, const F& body) {
  workers.parallelFor(ceilDiv(channels, kChannelBlock), [&](std::int64_t block) {
    const std::int64_t first = block * kChannelBlock;
    body(ChannelRange{first, std::min(kChannelBlock, channels - first)});
  });
}

/// Sums of f(partial, rows behind it, channel in the range) over the grains and the rows of a wide
/// row; partial is an offset from the start of either list.
template <class F>
ChannelSums addUp(const ChannelRows& plan, const ChannelRange& range, const F& f) {
  ChannelSums sums = {};
  for (std::int64_t part = 0; part < plan.grains() * plan.wide; ++part) {
    const auto rows = static_cast<double>(plan.grainRows(part / plan.wide));
    for (std::int64_t j = 0; j < range.count; ++j) {
      sums[static_cast<std::size_t>(j)] += f(part * plan.channels + range.first + j, rows, j);
    }
  }
  return sums;
}

/// The channel's value for each row of a wide row.
template <class T>
void repeat(const ChannelRows& plan, T* columns, std::int64_t channel, double value) {
  for (std::int64_t w = 0; w < plan.wide; ++w) {
    columns[w * plan.channels + channel] = static_cast<T>(value);
  }
}

/// Calls body(offset of a wide row) for all of them.
template <class F>
void forRows(Workers& workers, const ChannelRows& plan, const F& body) {
  const std::int64_t perTile = itemsPerTile(plan.width());
  workers.parallelFor(ceilDiv(plan.rows, perTile), [&](std::int64_t tile) {
    const std::int64_t last = std::min(plan.rows, (tile + 1) * perTile);
    for (std::int64_t row = tile * perTile; row < last; ++row) {
      body(row * plan.width());
    }
  });
}

template <class T>
class BatchNorm : public Kernel {
 public:
  explicit BatchNorm(const ir::OpView& op) : plan_(planRows(op)), epsilon_(ops::epsilonOf(op)) {}

  void run(const KernelRun& run) override {
    const Scratch<T> scratch(plan_, run.scratch);
    const auto* x = run.in<T>(0);
    auto* y = run.out<T>(0);
    run.workers.parallelFor(plan_.grains(), [&](std::int64_t grain) {
      const std::int64_t at = grain * plan_.width();
      loops_.grainMoments(plan_, x, grain, scratch.first + at, scratch.second + at);
    });
    forChannels(run.workers, plan_.channels, [&](const ChannelRange& range) {
      finish(run, scratch, range);
    });
    forRows(run.workers, plan_, [&](std::int64_t at) {
      loops_.normalizeRow(
          scratch.columns(), x + at, y + at, static_cast<std::size_t>(plan_.width()));
    });
  }

 private:
  /// Statistics of the channels, and the columns that rows are normalized by.
  void finish(const KernelRun& run, const Scratch<T>& scratch, const ChannelRange& range) const {
    const double terms = std::max(1.0, static_cast<double>(plan_.terms()));
    ChannelSums mean = addUp(plan_, range, [&](std::int64_t at, double rows, std::int64_t) {
      return rows * static_cast<double>(scratch.first[at]);
    });
    for (double& value : mean) {
      value /= terms;
    }
    const ChannelSums squares =
        addUp(plan_, range, [&](std::int64_t at, double rows, std::int64_t j) {
          const double off =
              static_cast<double>(scratch.first[at]) - mean[static_cast<std::size_t>(j)];
          return static_cast<double>(scratch.second[at]) + rows * off * off;
        });
    for (std::int64_t j = 0; j < range.count; ++j) {
      const std::int64_t c = range.first + j;
      const double variance = squares[static_cast<std::size_t>(j)] / terms;
      const double gamma = static_cast<double>(run.in<T>(1)[c]);
      run.out<T>(1)[c] = static_cast<T>(mean[static_cast<std::size_t>(j)]);
      run.out<T>(2)[c] = static_cast<T>(variance);
      repeat(plan_, scratch.mean, c, mean[static_cast<std::size_t>(j)]);
      repeat(plan_, scratch.scale, c, gamma / std::sqrt(variance + epsilon_));
      repeat(plan_, scratch.shift, c, static_cast<double>(run.in<T>(2)[c]));
    }
  }

  ChannelRows plan_;
  double epsilon_;
  BatchNormLoops<T> loops_ = batchNormLoops<T>();
};

/// Inputs (x, gamma, mean, variance, dy), outputs (dx, dgamma, dbeta).
template <class T>
class BatchNormGrad : public Kernel {
 public:
  explicit BatchNormGrad(const ir::OpView& op)
      : plan_(planRows(op)), epsilon_(ops::epsilonOf(op)) {}

  void run(const KernelRun& run) override {
    const Scratch<T> scratch(plan_, run.scratch);
    const NormGradInputs<T> in{run.in<T>(0), run.in<T>(4), scratch.mean};
    auto* dx = run.out<T>(0);
    for (std::int64_t c = 0; c < plan_.channels; ++c) {
      repeat(plan_, scratch.mean, c, static_cast<double>(run.in<T>(2)[c]));
    }
    run.workers.parallelFor(plan_.grains(), [&](std::int64_t grain) {
      const std::int64_t at = grain * plan_.width();
      loops_.grainGradSums(plan_, in, grain, scratch.first + at, scratch.second + at);
    });
    forChannels(run.workers, plan_.channels, [&](const ChannelRange& range) {
      finish(run, scratch, range);
    });
    forRows(run.workers, plan_, [&](std::int64_t at) {
      loops_.gradientRow(scratch.columns(),
                         in.x + at,
                         in.dy + at,
                         dx + at,
                         static_cast<std::size_t>(plan_.width()));
    });
  }

 private:
  void finish(const KernelRun& run, const Scratch<T>& scratch, const ChannelRange& range) const {
    const double terms = std::max(1.0, static_cast<double>(plan_.terms()));
    const auto total = [&](const T* partials) {
      return addUp(plan_, range, [partials](std::int64_t at, double, std::int64_t) {
        return static_cast<double>(partials[at]);
      });
    };
    const ChannelSums sums = total(scratch.first);
    const ChannelSums dots = total(scratch.second);
    for (std::int64_t j = 0; j < range.count; ++j) {
      const std::int64_t c = range.first + j;
      const double rstd = 1.0 / std::sqrt(static_cast<double>(run.in<T>(3)[c]) + epsilon_);
      const double dbeta = sums[static_cast<std::size_t>(j)];
      const double dgamma = dots[static_cast<std::size_t>(j)] * rstd;
      run.out<T>(1)[c] = static_cast<T>(dgamma);
      run.out<T>(2)[c] = static_cast<T>(dbeta);
      repeat(plan_, scratch.scale, c, static_cast<double>(run.in<T>(1)[c]) * rstd);
      repeat(plan_, scratch.shift, c, dbeta / terms);
      repeat(plan_, scratch.slope, c, dgamma * rstd / terms);
    }
  }

  ChannelRows plan_;
  double epsilon_;
  BatchNormLoops<T> loops_ = batchNormLoops<T>();
};

template <class K>
std::unique_ptr<Kernel> make(const ir::OpView& op) {
  return std::make_unique<K>(op);
}

}  // namespace

bool supportsBatchNorm(const ir::OpView& op) {
  const DType dtype = op.inputs[0].dtype;
  return (dtype == DType::F32 || dtype == DType::F64) && op.inputs[0].shape.rank() <= 5;
}

device::Choice chooseBatchNorm(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const device::Layout rows = activationLayout(op.inputs[0], true);
  choice.inputs[0] = rows;
  choice.outputs[0] = rows;
  if (op.inputs.size() == 5) {
    choice.inputs[4] = rows;
  }
  const ChannelRows plan = planRows(op);
  choice.scratchBytes =
      op.inputs[0].dtype == DType::F64 ? Scratch<double>::bytes(plan) : Scratch<float>::bytes(plan);
  return choice;
}

std::unique_ptr<Kernel> makeBatchNorm(const ir::OpView& op, const device::Choice& /*choice*/) {
  const bool grad = op.def.name == "batch_norm_grad";
  if (op.inputs[0].dtype == DType::F64) {
    return grad ? make<BatchNormGrad<double>>(op) : make<BatchNorm<double>>(op);
  }
  return grad ? make<BatchNormGrad<float>>(op) : make<BatchNorm<float>>(op);
}

}  // namespace sluice::devices::cpu
#endif
