// pad in every mode: rows along the innermost padded axis, each a copy of a run between two fills
// (constant) or between copies of single units (reflect, edge). A unit is what lies below that
// axis.
#include <algorithm>

#include "sluice/devices/cpu/kernels/blocks.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/moves.h"
#include "sluice/devices/cpu/kernels/strided_copy.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::devices::cpu {
namespace {

enum class PadMode : std::uint8_t { Constant, Reflect, Edge };

PadMode modeOf(const ir::OpView& op) {
  const std::string& mode = op.attrs.text("mode");
  if (mode == "reflect") {
    return PadMode::Reflect;
  }
  return mode == "edge" ? PadMode::Edge : PadMode::Constant;
}

struct PadAxis {
  std::int64_t extent = 1;
  std::int64_t before = 0;
  std::int64_t after = 0;

  std::int64_t padded() const { return before + extent + after; }
  /// The element that position `i` of the result shows, -1 for the constant.
  std::int64_t source(std::int64_t i, PadMode mode) const {
    const std::int64_t at = i - before;
    if (at >= 0 && at < extent) {
      return at;
    }
    switch (mode) {
      case PadMode::Reflect:
        return at < 0 ? -at : 2 * (extent - 1) - at;
      case PadMode::Edge:
        return at < 0 ? 0 : extent - 1;
      case PadMode::Constant:
        break;
    }
    return -1;
  }
};

class Pad : public Kernel {
 public:
  Pad(const ir::OpView& op, const device::Layout& layout)
      : mode_(modeOf(op)),
        bytes_(byteSize(op.inputs[0].dtype)),
        value_(HostTensor::full({op.inputs[0].dtype, Shape{}}, op.attrs.real("value"))),
        fill_(copyFunction(bytes_)),
        empty_(op.outputs[0].shape.elements() == 0) {
    for (const std::size_t i : storageOrder(op.inputs[0].shape.rank(), layout)) {
      outer_.push_back({op.inputs[0].shape.dims()[i],
                        op.attrs.integers("before")[i],
                        op.attrs.integers("after")[i]});
    }
    while (!outer_.empty() && outer_.back().padded() == outer_.back().extent) {
      unit_ *= outer_.back().extent;
      outer_.pop_back();
    }
    if (!outer_.empty()) {
      row_ = outer_.back();
      outer_.pop_back();
    }
    for (const PadAxis& axis : outer_) {
      rows_ *= axis.padded();
    }
  }

  void run(const KernelRun& run) override {
    if (empty_) {
      return;
    }
    const std::int64_t perTile = itemsPerTile(row_.padded() * unit_);
    run.workers.parallelFor(ceilDiv(rows_, perTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(rows_, (tile + 1) * perTile);
      for (std::int64_t row = tile * perTile; row < last; ++row) {
        makeRow(run, row);
      }
    });
  }

 private:
  std::byte* at(std::byte* base, std::int64_t units) const {
    return base + units * unit_ * static_cast<std::int64_t>(bytes_);
  }
  const std::byte* at(const std::byte* base, std::int64_t units) const {
    return base + units * unit_ * static_cast<std::int64_t>(bytes_);
  }

  /// The row of the operand that a row of the result shows, -1 for none.
  std::int64_t sourceRow(std::int64_t row) const {
    std::int64_t source = 0;
    std::int64_t stride = 1;
    for (std::size_t i = outer_.size(); i-- > 0;) {
      const std::int64_t from = outer_[i].source(row % outer_[i].padded(), mode_);
      if (from < 0) {
        return -1;
      }
      row /= outer_[i].padded();
      source += from * stride;
      stride *= outer_[i].extent;
    }
    return source;
  }

  void makeRow(const KernelRun& run, std::int64_t row) const {
    std::byte* to = at(run.out<std::byte>(0), row * row_.padded());
    const std::int64_t source = sourceRow(row);
    if (source < 0) {
      return fill(to, row_.padded());
    }
    const std::byte* from = at(run.in<std::byte>(0), source * row_.extent);
    copyRun(from, at(to, row_.before), unitBytes(row_.extent));
    makeEnd(from, to, {0, row_.before});
    makeEnd(from, to, {row_.before + row_.extent, row_.padded()});
  }

  struct Range {
    std::int64_t first;
    std::int64_t last;
  };
  /// Units [first, last) of a row, outside the operand.
  void makeEnd(const std::byte* from, std::byte* to, const Range& range) const {
    if (mode_ == PadMode::Constant) {
      return fill(at(to, range.first), range.last - range.first);
    }
    for (std::int64_t i = range.first; i < range.last; ++i) {
      copyRun(at(from, row_.source(i, mode_)), at(to, i), unitBytes(1));
    }
  }

  void fill(std::byte* to, std::int64_t units) const {
    fill_({.in = {value_.bytes()}, .single = 1, .out = to, .n = units * unit_});
  }
  std::size_t unitBytes(std::int64_t units) const {
    return static_cast<std::size_t>(units * unit_) * bytes_;
  }

  PadMode mode_;
  std::size_t bytes_;
  HostTensor value_;
  BlockFunction fill_;
  bool empty_;
  std::vector<PadAxis> outer_;
  PadAxis row_;
  std::int64_t unit_ = 1;  ///< elements
  std::int64_t rows_ = 1;  ///< of the result
};

}  // namespace

std::unique_ptr<Kernel> makePad(const ir::OpView& op, const device::Choice& choice) {
  return std::make_unique<Pad>(op, choice.inputs[0]);
}

}  // namespace sluice::devices::cpu
