// Pooling and its gradients, in plain or channels-last storage with the same bits (it follows its
// input). Work is cut by lines of the result, that of gradients by images or maps, because windows
// of several lines may meet the same pixels; 16-bit floats are computed in float32.
#include "sluice/ops/pool.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/convert.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/pool_strips.h"

namespace sluice::devices::cpu {
namespace {

constexpr std::int64_t kMaxTiles = 64;
constexpr std::int64_t kTapsPerTile = 1 << 15;  // below that, handing a tile to a thread costs more

std::size_t aligned(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/// How a tensor [batch, channels, spatial...] is walked: `planes` pieces of memory, `lanes` values
/// at every position.
struct Walk {
  bool channelsLast = false;
  std::int64_t planes = 0;
  std::int64_t lanes = 1;
};

Walk walkOf(const ops::PoolDims& d, bool channelsLast) {
  return channelsLast ? Walk{true, d.batch, d.channels} : Walk{false, d.maps(), 1};
}

/// What the four ops share: the windows of one plane, cut into strips.
class Windows {
 public:
  Windows(const ops::PoolDims& d, const Walk& walk) : d_(d), walk_(walk) {
    // Windows [first, last) along the last axis lie wholly inside the input.
    const std::int64_t reach = (d.kernel[2] - 1) * d.dilations[2];
    firstInside_ = std::min(d.out[2], (d.padsBefore[2] + d.strides[2] - 1) / d.strides[2]);
    const std::int64_t room = d.in[2] - 1 - reach + d.padsBefore[2];
    endInside_ = room < 0 ? 0 : std::min(d.out[2], room / d.strides[2] + 1);
    endInside_ = std::max(endInside_, firstInside_);
  }

  /// Lines of the result of one plane.
  std::int64_t lines() const { return d_.out[0] * d_.out[1]; }

  /// Calls f(strip, first window) for the windows of lines [first, end) of a plane, in ascending
  /// order. `taps` is room for one window's taps.
  template <class F>
  void forEachStrip(std::int64_t first, std::int64_t end, PoolTap* taps, F f) const {
    for (std::int64_t line = first; line < end; ++line) {
      row(line / d_.out[1], line % d_.out[1], taps, f);
    }
  }

 private:
  template <class F>
  void row(std::int64_t o0, std::int64_t o1, PoolTap* taps, F f) const {
    const std::int64_t first = (o0 * d_.out[1] + o1) * d_.out[2];
    const auto one = [&](std::int64_t o2) {
      const ops::Extents o = {o0, o1, o2};
      f(PoolStrip{.taps = tapsOf(o, taps), .lanes = walk_.lanes, .start = start(o)}, first + o2);
    };
    for (std::int64_t o2 = 0; o2 < firstInside_; ++o2) {
      one(o2);
    }
    inside({o0, o1, firstInside_}, first, taps, f);
    for (std::int64_t o2 = endInside_; o2 < d_.out[2]; ++o2) {
      one(o2);
    }
  }

  /// The windows of a row that have all taps of the last axis, from window o on.
  template <class F>
  void inside(const ops::Extents& o, std::int64_t first, PoolTap* taps, F f) const {
    if (endInside_ == firstInside_) {
      return;
    }
    const auto list = tapsOf(o, taps);
    if (!walk_.channelsLast) {
      f(PoolStrip{.taps = list,
                  .lanes = endInside_ - firstInside_,
                  .start = start(o),
                  .inputStride = d_.strides[2],
                  .separate = false},
        first + firstInside_);
      return;
    }
    f(PoolStrip{.taps = list,
                .lanes = walk_.lanes,
                .windows = endInside_ - firstInside_,
                .step = d_.strides[2] * walk_.lanes,
                .start = start(o)},
      first + firstInside_);
  }

  /// Offset of the window's first position, which may lie outside the plane.
  std::int64_t start(const ops::Extents& o) const {
    return at(d_.position(0, o[0], 0), d_.position(1, o[1], 0), d_.position(2, o[2], 0));
  }
  std::int64_t at(std::int64_t i0, std::int64_t i1, std::int64_t i2) const {
    return ((i0 * d_.in[1] + i1) * d_.in[2] + i2) * walk_.lanes;
  }

  std::span<const PoolTap> tapsOf(const ops::Extents& o, PoolTap* taps) const {
    std::size_t count = 0;
    std::int32_t position = 0;
    const auto within = [&](std::size_t axis, std::int64_t k) {
      const std::int64_t i = d_.position(axis, o[axis], k);
      return i >= 0 && i < d_.in[axis];
    };
    for (std::int64_t k0 = 0; k0 < d_.kernel[0]; ++k0) {
      for (std::int64_t k1 = 0; k1 < d_.kernel[1]; ++k1) {
        for (std::int64_t k2 = 0; k2 < d_.kernel[2]; ++k2, ++position) {
          if (within(0, k0) && within(1, k1) && within(2, k2)) {
            taps[count++] = {at(k0 * d_.dilations[0], k1 * d_.dilations[1], k2 * d_.dilations[2]),
                             position};
          }
        }
      }
    }
    return {taps, count};
  }

  ops::PoolDims d_;
  Walk walk_;
  std::int64_t firstInside_ = 0;
  std::int64_t endInside_ = 0;
};

/// Whether every element of the input lies in exactly one window.
bool partitions(const ops::PoolDims& d) {
  for (std::size_t axis = 0; axis < d.in.size(); ++axis) {
    if (d.kernel[axis] != d.strides[axis] || d.dilations[axis] != 1 || d.padsBefore[axis] != 0 ||
        d.out[axis] * d.strides[axis] != d.in[axis]) {
      return false;
    }
  }
  return true;
}

/// Tiles are ranges of units; their number depends on the shape and the storage only.
std::int64_t tilesOf(const ops::PoolDims& d, std::int64_t units) {
  const std::int64_t work = d.maps() * d.outSize() * d.kernelSize();
  return std::clamp<std::int64_t>(work / kTapsPerTile, 1, std::min(kMaxTiles, units));
}

/// Room for the taps of one window per tile, then the operands in float32 if they are narrower.
struct ScratchPlan {
  std::size_t perTile = 0;
  std::size_t wideIn = 0;
  std::size_t wideOut = 0;
  std::size_t total = 0;
};

ScratchPlan scratchOf(const ops::PoolDims& d, bool converts, bool isGrad) {
  ScratchPlan s;
  s.perTile = aligned(static_cast<std::size_t>(d.kernelSize()) * sizeof(PoolTap));
  s.wideIn = s.perTile * static_cast<std::size_t>(kMaxTiles);
  s.wideOut = s.wideIn;
  s.total = s.wideIn;
  if (converts) {
    const auto floats = [](std::int64_t count) {
      return aligned(static_cast<std::size_t>(count) * sizeof(float));
    };
    const std::size_t in = floats(d.maps() * d.inSize());
    const std::size_t out = floats(d.maps() * d.outSize());
    s.wideOut += isGrad ? out : in;
    s.total += in + out;
  }
  return s;
}

class Pool : public Kernel {
 public:
  Pool(const ir::OpView& op, bool channelsLast)
      : d_(ops::poolDims(op)),
        walk_(walkOf(d_, channelsLast)),
        windows_(d_, walk_),
        isGrad_(op.attrs.find("inputShape") != nullptr),
        floats_(op.inputs.size() - 1),
        storage_(op.inputs[floats_].dtype),
        scratch_(scratchOf(d_, storage_ != DType::F32, isGrad_)),
        unitsOfPlane_(isGrad_ ? 1 : windows_.lines()),
        tiles_(tilesOf(d_, walk_.planes * unitsOfPlane_)) {}

  void run(const KernelRun& run) final {
    auto* scratch = static_cast<std::byte*>(run.scratch);
    const auto* in = run.in<float>(floats_);
    auto* out = run.out<float>(0);
    const bool converts = storage_ != DType::F32;
    const std::int64_t inCount = d_.maps() * (isGrad_ ? d_.outSize() : d_.inSize());
    const std::int64_t outCount = d_.maps() * (isGrad_ ? d_.inSize() : d_.outSize());
    if (converts) {
      auto* wide = reinterpret_cast<float*>(scratch + scratch_.wideIn);
      toFloat(storage_, in, wide, inCount, run.workers);
      in = wide;
      out = reinterpret_cast<float*>(scratch + scratch_.wideOut);
    }
    run.workers.parallelFor(tiles_, [&](std::int64_t tile) {
      auto* taps =
          reinterpret_cast<PoolTap*>(scratch + scratch_.perTile * static_cast<std::size_t>(tile));
      const std::int64_t units = walk_.planes * unitsOfPlane_;
      const std::int64_t end = units * (tile + 1) / tiles_;
      for (std::int64_t unit = units * tile / tiles_; unit < end;) {
        const std::int64_t p = unit / unitsOfPlane_;
        const std::int64_t next = std::min(end, (p + 1) * unitsOfPlane_);
        const std::int64_t lines = windows_.lines() / unitsOfPlane_;  // of a unit
        plane(run,
              p,
              {.in = in + p * (inCount / walk_.planes),
               .out = out + p * (outCount / walk_.planes),
               .taps = taps,
               .firstLine = (unit - p * unitsOfPlane_) * lines,
               .endLine = (next - p * unitsOfPlane_) * lines});
        unit = next;
      }
    });
    if (converts) {
      fromFloat(storage_, out, run.out<void>(0), outCount, run.workers);
    }
  }

 protected:
  /// Lines [firstLine, endLine) of the windows of a plane.
  struct Plane {
    const float* in;
    float* out;
    PoolTap* taps;
    std::int64_t firstLine;
    std::int64_t endLine;
  };
  virtual void plane(const KernelRun& run, std::int64_t index, const Plane& p) = 0;

  std::int64_t inPlane() const { return d_.inSize() * walk_.lanes; }
  std::int64_t outPlane() const { return d_.outSize() * walk_.lanes; }

  template <class F>
  void forEachStrip(const Plane& p, F f) const {
    windows_.forEachStrip(p.firstLine, p.endLine, p.taps, f);
  }

  ops::PoolDims d_;
  Walk walk_;
  Windows windows_;

 private:
  bool isGrad_;
  std::size_t floats_;  ///< the operand of floats; indices come before it
  DType storage_;
  ScratchPlan scratch_;
  std::int64_t unitsOfPlane_;  ///< lines of the result, or all of them together
  std::int64_t tiles_;
};

template <class Index>
class MaxPool : public Pool {
  using Pool::Pool;
  void plane(const KernelRun& run, std::int64_t index, const Plane& p) override {
    Index* indices = run.out<Index>(1) + index * outPlane();
    forEachStrip(p, [&](const PoolStrip& strip, std::int64_t o) {
      maxPoolStrip(strip, p.in, p.out + o * walk_.lanes, indices + o * walk_.lanes);
    });
  }
};

template <class Index>
class MaxPoolGrad : public Pool {
 public:
  MaxPoolGrad(const ir::OpView& op, bool channelsLast)
      : Pool(op, channelsLast), partitions_(partitions(d_)) {}

 private:
  void plane(const KernelRun& run, std::int64_t index, const Plane& p) override {
    const Index* indices = run.in<Index>(0) + index * outPlane();
    const bool replace = walk_.channelsLast && partitions_;
    if (!replace) {
      std::fill_n(p.out, inPlane(), 0.0F);
    }
    forEachStrip(p, [&](const PoolStrip& strip, std::int64_t o) {
      maxPoolGradStrip(strip, indices + o * walk_.lanes, p.in + o * walk_.lanes, p.out, replace);
    });
  }

  bool partitions_;
};

/// Divisors differ only at the edges, where every window is a strip of its own; so a strip has one.
class AvgPool : public Pool {
 public:
  AvgPool(const ir::OpView& op, bool channelsLast)
      : Pool(op, channelsLast), isGrad_(op.attrs.find("inputShape") != nullptr) {
    for (const double divisor : ops::avgPoolDivisors(d_, op.attrs.flag("countIncludePad"))) {
      divisors_.push_back(static_cast<float>(divisor));
    }
  }

 private:
  void plane(const KernelRun& /*run*/, std::int64_t /*index*/, const Plane& p) override {
    forEachStrip(p, [&](const PoolStrip& strip, std::int64_t o) {
      const float divisor = divisors_[static_cast<std::size_t>(o)];
      if (isGrad_) {
        if (o == 0) {
          std::fill_n(p.out, inPlane(), 0.0F);
        }
        avgPoolGradStrip(strip, p.in + o * walk_.lanes, divisor, p.out);
      } else {
        avgPoolStrip(strip, p.in, divisor, p.out + o * walk_.lanes);
      }
    });
  }

  bool isGrad_;
  std::vector<float> divisors_;
};

bool channelsLast(const device::Choice& choice) {
  return choice.outputs[0].kind == device::Layout::Kind::ChannelsLast;
}

}  // namespace

bool supportsPool(const ir::OpView& op) {
  const DType dtype = op.inputs.back().dtype;
  if (dtype != DType::F32 && dtype != DType::F16 && dtype != DType::BF16) {
    return false;
  }
  const ops::PoolDims d = ops::poolDims(op);
  // Strides are multiplied in 32 bits where lanes are gathered.
  return d.maps() > 0 && d.inSize() > 0 && d.inSize() < (std::int64_t{1} << 26);
}

device::Choice choosePool(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  choice.rule = device::LayoutRule::Follow;
  choice.scratchBytes = scratchOf(ops::poolDims(op),
                                  op.inputs.back().dtype != DType::F32,
                                  op.attrs.find("inputShape") != nullptr)
                            .total;
  return choice;
}

std::unique_ptr<Kernel> makeMaxPool(const ir::OpView& op, const device::Choice& choice) {
  if (op.outputs[1].dtype == DType::U8) {
    return std::make_unique<MaxPool<std::uint8_t>>(op, channelsLast(choice));
  }
  return std::make_unique<MaxPool<std::int32_t>>(op, channelsLast(choice));
}

std::unique_ptr<Kernel> makeMaxPoolGrad(const ir::OpView& op, const device::Choice& choice) {
  if (op.inputs[0].dtype == DType::U8) {
    return std::make_unique<MaxPoolGrad<std::uint8_t>>(op, channelsLast(choice));
  }
  return std::make_unique<MaxPoolGrad<std::int32_t>>(op, channelsLast(choice));
}

std::unique_ptr<Kernel> makeAvgPool(const ir::OpView& op, const device::Choice& choice) {
  return std::make_unique<AvgPool>(op, channelsLast(choice));
}

}  // namespace sluice::devices::cpu
