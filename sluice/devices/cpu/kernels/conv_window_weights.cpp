#include "sluice/devices/cpu/kernels/conv_window_weights.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/devices/cpu/kernels/grains.h"

namespace sluice::devices::cpu {
namespace {

/// Panels without gaps between them.
PanelFormat closePanels(std::int64_t terms, std::int64_t columns, std::int64_t width) {
  return {.down = terms,
          .across = columns,
          .downBlock = 1,
          .width = width,
          .downStride = width,
          .panelStride = terms * width,
          .paddedDown = terms,
          .panels = ceilDiv(columns, width)};
}

/// Of which pass the weights are, and how wide their panels.
struct Panels {
  bool forward = true;
  std::int64_t width = 0;
};

dnnl::memory::desc describe(std::int64_t out,
                            std::int64_t in,
                            std::int64_t taps,
                            const Panels& panels) {
  dnnl::memory::desc desc(
      {out, in, taps}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::abc);
  const std::size_t across = panels.forward ? 0 : 1;
  const std::size_t summed = 1 - across;
  const std::int64_t columns = panels.forward ? out : in;
  const std::int64_t terms = panels.forward ? in : out;
  dnnl_blocking_desc_t& blocking = desc.data.format_desc.blocking;
  desc.data.padded_dims[across] = ceilDiv(columns, panels.width) * panels.width;
  blocking.inner_nblks = 1;
  blocking.inner_blks[0] = panels.width;
  blocking.inner_idxs[0] = static_cast<dnnl_dim_t>(across);
  blocking.strides[summed] = panels.width;
  blocking.strides[2] = terms * panels.width;
  blocking.strides[across] = taps * terms * panels.width;
  return desc;
}

class PackWindows : public Kernel {
 public:
  PackWindows(std::int64_t out, std::int64_t in, std::int64_t taps, const Panels& panels)
      : out_(out),
        in_(in),
        taps_(taps),
        forward_(panels.forward),
        format_(closePanels(taps * (forward_ ? in : out), forward_ ? out : in, panels.width)) {}

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

WindowProduct::WindowProduct(const ops::ConvDims& d, bool forward)
    : pixels(d.batch * (forward ? d.outSize() : d.inSize())),
      terms(d.kernelSize() * (forward ? d.inChannels : d.outChannels)),
      columns(forward ? d.outChannels : d.inChannels) {}

PanelFormat windowPanels(const WindowProduct& product) {
  constexpr std::int64_t kNarrow = 32;
  const std::int64_t widest = panelWidth(product.columns);
  const bool narrow =
      product.weights() >= kManyWeights && product.pixels * product.terms <= kMostShared;
  return closePanels(product.terms, product.columns, narrow ? std::min(kNarrow, widest) : widest);
}

dnnl::memory::desc describeWindowWeights(const ops::ConvDims& d, bool forward) {
  return describe(d.outChannels,
                  d.inChannels,
                  d.kernelSize(),
                  {.forward = forward, .width = windowPanels({d, forward}).width});
}

std::unique_ptr<Kernel> makePackWindows(const dnnl::memory::desc& desc) {
  const dnnl_memory_desc_t& data = desc.data;
  if (data.ndims != 3 || data.format_kind != dnnl_blocked ||
      data.format_desc.blocking.inner_nblks != 1) {
    return nullptr;
  }
  const std::int64_t out = data.dims[0];
  const std::int64_t in = data.dims[1];
  const std::int64_t taps = data.dims[2];
  for (const bool forward : {true, false}) {
    const Panels panels{.forward = forward, .width = data.format_desc.blocking.inner_blks[0]};
    if (describe(out, in, taps, panels) == desc) {
      return std::make_unique<PackWindows>(out, in, taps, panels);
    }
  }
  return nullptr;
}

}  // namespace sluice::devices::cpu
