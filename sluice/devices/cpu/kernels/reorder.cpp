// reorder between plain and channels-last storage, element by element along the innermost axes,
// between plain and the opaque formats of oneDNN, and between equal layouts, which is a copy.
#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/conv_window_weights.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/onednn.h"
#include "sluice/devices/cpu/kernels/pack_matrix.h"

namespace sluice::devices::cpu {
namespace {

/// Columns [first, end) of one image as a [channels, pixels] matrix, against its transpose.
template <class T>
void transposeImage(const T* from,
                    T* to,
                    std::int64_t rows,
                    std::int64_t cols,
                    std::int64_t first,
                    std::int64_t end) {
  constexpr std::int64_t kBlock = 16;
  for (std::int64_t i0 = 0; i0 < rows; i0 += kBlock) {
    const std::int64_t i1 = std::min(rows, i0 + kBlock);
    for (std::int64_t j0 = first; j0 < end; j0 += kBlock) {
      const std::int64_t j1 = std::min(end, j0 + kBlock);
      for (std::int64_t i = i0; i < i1; ++i) {
        for (std::int64_t j = j0; j < j1; ++j) {
          to[j * rows + i] = from[i * cols + j];
        }
      }
    }
  }
}

class Reorder : public Kernel {
 public:
  Reorder(const TensorType& type, bool toChannelsLast)
      : elementBytes_(byteSize(type.dtype)), images_(type.shape[0]) {
    std::int64_t pixels = 1;
    for (std::int64_t i = 2; i < type.shape.rank(); ++i) {
      pixels *= type.shape[i];
    }
    rows_ = toChannelsLast ? type.shape[1] : pixels;
    cols_ = toChannelsLast ? pixels : type.shape[1];
  }

  void run(const KernelRun& run) override {
    const std::int64_t step = itemsPerTile(rows_);
    const std::int64_t parts = ceilDiv(cols_, step);
    run.workers.parallelFor(images_ * parts, [&](std::int64_t tile) {
      const std::int64_t image = tile / parts;
      const Columns part{tile % parts * step, std::min(cols_, (tile % parts + 1) * step)};
      const std::size_t offset = static_cast<std::size_t>(image * rows_ * cols_) * elementBytes_;
      const std::byte* from = run.in<std::byte>(0) + offset;
      std::byte* to = run.out<std::byte>(0) + offset;
      switch (elementBytes_) {
        case 1:
          return transposeAs<std::uint8_t>(from, to, part);
        case 2:
          return transposeAs<std::uint16_t>(from, to, part);
        case 4:
          return rows_ < kLeastRows ? transposeAs<std::uint32_t>(from, to, part)
                                    : transposeFloats(from, to, part);
        default:
          return transposeAs<std::uint64_t>(from, to, part);
      }
    });
  }

 private:
  struct Columns {
    std::int64_t first;
    std::int64_t end;
  };

  /// In registers; with fewer rows these would be mostly empty.
  static constexpr std::int64_t kLeastRows = 8;
  void transposeFloats(const std::byte* from, std::byte* to, const Columns& part) const {
    transposeMatrix({rows_, part.end - part.first, cols_},
                    reinterpret_cast<const float*>(from) + part.first,
                    reinterpret_cast<float*>(to) + part.first * rows_,
                    rows_);
  }

  template <class T>
  void transposeAs(const std::byte* from, std::byte* to, const Columns& part) const {
    transposeImage(reinterpret_cast<const T*>(from),
                   reinterpret_cast<T*>(to),
                   rows_,
                   cols_,
                   part.first,
                   part.end);
  }

  std::size_t elementBytes_;
  std::int64_t images_;
  std::int64_t rows_;
  std::int64_t cols_;
};

/// A matrix from plain storage to the format of a matmul's right operand.
class PackMatrix : public Kernel {
 public:
  explicit PackMatrix(const PanelFormat& format) : format_(format) {}

  void run(const KernelRun& run) override {
    packMatrix(format_, run.in<float>(0), run.out<float>(0), run.workers);
  }

 private:
  PanelFormat format_;
};

/// Between plain storage and any format of oneDNN.
class Pack : public Kernel {
 public:
  Pack(const dnnl::memory::desc& from, const dnnl::memory::desc& to)
      : call_(onednn::reorderCall(from, to)) {}

  void run(const KernelRun& run) override {
    const std::array<const void*, 2> addresses = {run.inputs[0], run.outputs[0]};
    call_.run(addresses);
  }

 private:
  onednn::Call call_;
};

class Copy : public Kernel {
 public:
  explicit Copy(std::size_t bytes) : bytes_(bytes) {}

  void run(const KernelRun& run) override {
    constexpr std::size_t kTile = 1 << 18;
    run.workers.parallelFor(static_cast<std::int64_t>((bytes_ + kTile - 1) / kTile),
                            [&](std::int64_t tile) {
                              const std::size_t begin = static_cast<std::size_t>(tile) * kTile;
                              // A variable assigned to itself is copied onto itself.
                              std::memmove(run.out<std::byte>(0) + begin,
                                           run.in<std::byte>(0) + begin,
                                           std::min(kTile, bytes_ - begin));
                            });
  }

 private:
  std::size_t bytes_;
};

}  // namespace

std::unique_ptr<Kernel> makeReorder(const ir::OpView& op, const device::Choice& choice) {
  const device::Layout& from = choice.inputs[0];
  const device::Layout& to = choice.outputs[0];
  if (from == to) {
    return std::make_unique<Copy>(from.bytes(op.inputs[0]));
  }
  SLUICE_CHECK(from.isPlain() || to.isPlain(), "a reorder from {} to {}", from.str(), to.str());
  if (from.kind == device::Layout::Kind::Opaque) {
    const dnnl::memory::desc desc = onednn::describe(op.inputs[0], from);
    return std::make_unique<Pack>(desc, onednn::plainLike(desc));
  }
  if (to.kind == device::Layout::Kind::Opaque) {
    const dnnl::memory::desc desc = onednn::describe(op.inputs[0], to);
    if (const std::optional<PanelFormat> format = panelFormat(desc)) {
      return std::make_unique<PackMatrix>(*format);
    }
    if (auto windows = makePackWindows(desc)) {
      return windows;
    }
    return std::make_unique<Pack>(onednn::plainLike(desc), desc);
  }
  return std::make_unique<Reorder>(op.inputs[0], from.isPlain());
}

}  // namespace sluice::devices::cpu
