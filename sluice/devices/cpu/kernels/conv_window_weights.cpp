#include "sluice/devices/cpu/kernels/conv_window_weights.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/devices/cpu/kernels/grains.h"

namespace sluice::devices::cpu {
namespace {

class PackWindows : public Kernel {
 public:
  PackWindows(std::int64_t out, std::int64_t in, std::int64_t taps, bool forward)
      : out_(out),
        in_(in),
        taps_(taps),
        forward_(forward),
        format_(windowPanels(taps * (forward ? in : out), forward ? out : in)) {}

  void run(const KernelRun& run) override {
    run.workers.parallelFor(format_.panels, [&](std::int64_t panel) {
      const std::int64_t first = panel * format_.width;
      const std::int64_t used = std::min(format_.width, format_.across - first);
      float* to = run.out<float>(0) + panel * format_.panelStride;
      if (used < format_.width) {
        std::fill_n(to, format_.panelStride, 0.0F);
      }
      const float* from = run.in<float>(0) + first * (forward_ ? in_ : 1) * taps_;
      forward_ ? packForward(from, used, to) : packGradient(from, used, to);
    });
  }

 private:
  /// Some taps of some channels are transposed together and then put apart.
  void packForward(const float* from, std::int64_t used, float* to) const {
    constexpr std::int64_t kTurned = 128;
    constexpr std::int64_t kMostColumns = 64;
    alignas(64) std::array<float, kTurned * kMostColumns> turned;
    const auto bytes = static_cast<std::size_t>(used) * sizeof(float);
    for (std::int64_t first = 0; first < in_ * taps_; first += kTurned) {
      const std::int64_t count = std::min(kTurned, in_ * taps_ - first);
      transposeMatrix({used, count, in_ * taps_}, from + first, turned.data(), kMostColumns);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t row = (first + i) % taps_ * in_ + (first + i) / taps_;
        std::memcpy(to + row * format_.width, turned.data() + i * kMostColumns, bytes);
      }
    }
  }

  void packGradient(const float* from, std::int64_t used, float* to) const {
    for (std::int64_t o = 0; o < out_; ++o) {
      const float* row = from + o * in_ * taps_;
      if (taps_ == 1) {
        std::memcpy(to + o * format_.width, row, static_cast<std::size_t>(used) * sizeof(float));
      } else {
        transposeMatrix({used, taps_, taps_}, row, to + o * format_.width, out_ * format_.width);
      }
    }
  }

  std::int64_t out_;
  std::int64_t in_;
  std::int64_t taps_;
  bool forward_;
  PanelFormat format_;
};

}  // namespace

PanelFormat windowPanels(std::int64_t terms, std::int64_t columns) {
  PanelFormat format = panelsOf(terms, columns);
  format.paddedDown = terms;
  format.panelStride = terms * format.width;
  return format;
}

dnnl::memory::desc describeWindowWeights(const ops::ConvDims& d, bool forward) {
  const std::int64_t taps = d.kernelSize();
  dnnl::memory::desc desc({d.outChannels, d.inChannels, taps},
                          dnnl::memory::data_type::f32,
                          dnnl::memory::format_tag::abc);
  const std::size_t across = forward ? 0 : 1;
  const std::size_t summed = 1 - across;
  const std::int64_t columns = forward ? d.outChannels : d.inChannels;
  const std::int64_t terms = forward ? d.inChannels : d.outChannels;
  const std::int64_t width = panelWidth(columns);
  dnnl_blocking_desc_t& blocking = desc.data.format_desc.blocking;
  desc.data.padded_dims[across] = ceilDiv(columns, width) * width;
  blocking.inner_nblks = 1;
  blocking.inner_blks[0] = width;
  blocking.inner_idxs[0] = static_cast<dnnl_dim_t>(across);
  blocking.strides[summed] = width;
  blocking.strides[2] = terms * width;
  blocking.strides[across] = taps * terms * width;
  return desc;
}

std::unique_ptr<Kernel> makePackWindows(const dnnl::memory::desc& desc) {
  const dnnl_memory_desc_t& data = desc.data;
  if (data.ndims != 3 || data.format_kind != dnnl_blocked) {
    return nullptr;
  }
  ops::ConvDims d;
  d.outChannels = data.dims[0];
  d.inChannels = data.dims[1];
  d.kernel = {1, 1, data.dims[2]};
  for (const bool forward : {true, false}) {
    if (describeWindowWeights(d, forward) == desc) {
      return std::make_unique<PackWindows>(d.outChannels, d.inChannels, data.dims[2], forward);
    }
  }
  return nullptr;
}

}  // namespace sluice::devices::cpu
