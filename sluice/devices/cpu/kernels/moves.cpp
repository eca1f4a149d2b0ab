// slice, slice_scatter, concat, split, reverse and tile: strided copies; slice_scatter fills with
// zeros first.
#include "sluice/devices/cpu/kernels/moves.h"

#include <algorithm>
#include <cstring>

#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/strided_copy.h"
#include "sluice/ops/reduce.h"
#include "sluice/ops/slice.h"

namespace sluice::devices::cpu {
namespace {

/// One copy from an input to an output, with the bytes at which it starts in each.
struct Move {
  StridedCopy copy;
  std::size_t input = 0;
  std::size_t output = 0;
  std::int64_t from = 0;
  std::int64_t to = 0;
};

class Moves : public Kernel {
 public:
  /// `zeroBytes` of output 0 are cleared first.
  explicit Moves(std::vector<Move> moves, std::size_t zeroBytes = 0)
      : moves_(std::move(moves)), zeroBytes_(zeroBytes) {
    for (const Move& move : moves_) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + move.copy.tiles());
    }
  }

  void run(const KernelRun& run) override {
    fillZero(run.out<std::byte>(0), zeroBytes_, run.workers);
    run.workers.parallelFor(ends_.back(), [&](std::int64_t tile) {
      const auto found = std::ranges::upper_bound(ends_, tile);
      const Move& move = moves_[static_cast<std::size_t>(found - ends_.begin())];
      move.copy.runTile(tile - (*found - move.copy.tiles()),
                        run.in<std::byte>(move.input) + move.from,
                        run.out<std::byte>(move.output) + move.to);
    });
  }

 private:
  std::vector<Move> moves_;
  std::vector<std::int64_t> ends_;  ///< the number of tiles up to and with each move
  std::size_t zeroBytes_;
};

/// The part `view` of a tensor that is `whole`, against a dense tensor of the part's shape.
struct Part {
  std::vector<CopyAxis> axes;  ///< from the whole to the dense tensor
  std::int64_t start = 0;      ///< bytes, in the whole
};

Part partOf(const TensorType& whole,
            const std::vector<ops::SliceAxis>& view,
            const device::Layout& layout) {
  const auto bytes = static_cast<std::int64_t>(byteSize(whole.dtype));
  std::vector<std::int64_t> counts;
  counts.reserve(view.size());
  for (const ops::SliceAxis& axis : view) {
    counts.push_back(axis.count);
  }
  const std::vector<std::int64_t> strides = device::strides(whole.shape, layout);
  const std::vector<std::int64_t> dense = device::strides(Shape(std::move(counts)), layout);
  Part part;
  for (const std::size_t i : storageOrder(whole.shape.rank(), layout)) {
    // The step of a single element may be any number: its product need not fit.
    const std::int64_t stride = view[i].count > 1 ? view[i].step * strides[i] : 0;
    part.axes.push_back({view[i].count, stride, dense[i]});
    part.start += view[i].count > 0 ? view[i].start * strides[i] * bytes : 0;
  }
  return part;
}

std::vector<CopyAxis> turned(std::vector<CopyAxis> axes) {
  for (CopyAxis& axis : axes) {
    std::swap(axis.from, axis.to);
  }
  return axes;
}

/// The pieces of a tensor along `axis`, as parts of it.
std::vector<Part> partsAlong(const ir::OpView& op,
                             const TensorType& whole,
                             std::span<const TensorType> pieces,
                             const device::Layout& layout) {
  const auto axis = static_cast<std::size_t>(ops::axisAttr(op, whole.shape));
  std::vector<Part> parts;
  std::int64_t start = 0;
  for (const TensorType& piece : pieces) {
    std::vector<ops::SliceAxis> view;
    for (const std::int64_t extent : piece.shape.dims()) {
      view.push_back({.count = extent});
    }
    view[axis].start = start;
    start += view[axis].count;
    parts.push_back(partOf(whole, view, layout));
  }
  return parts;
}

}  // namespace

device::Choice chooseMove(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const std::int64_t rank = op.outputs[0].shape.rank();
  if (rank >= 3 && rank <= 5) {
    choice.rule = device::LayoutRule::Follow;
  }
  return choice;
}

std::vector<std::size_t> storageOrder(std::int64_t rank, const device::Layout& layout) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) {
    if (layout.isPlain() || i != 1) {
      order.push_back(i);
    }
  }
  if (!layout.isPlain()) {
    order.push_back(1);
  }
  return order;
}

void fillZero(std::byte* to, std::size_t bytes, Workers& workers) {
  constexpr std::size_t kTile = 1 << 17;
  workers.parallelFor(static_cast<std::int64_t>((bytes + kTile - 1) / kTile),
                      [&](std::int64_t tile) {
                        const std::size_t begin = static_cast<std::size_t>(tile) * kTile;
                        std::memset(to + begin, 0, std::min(kTile, bytes - begin));
                      });
}

std::unique_ptr<Kernel> makeSlice(const ir::OpView& op, const device::Choice& choice) {
  const TensorType& whole = op.inputs[0];
  Part part = partOf(whole, ops::sliceAxes(op, whole.shape), choice.inputs[0]);
  std::vector<Move> moves;
  moves.push_back({.copy = {part.axes, byteSize(whole.dtype)}, .from = part.start});
  return std::make_unique<Moves>(std::move(moves));
}

std::unique_ptr<Kernel> makeSliceScatter(const ir::OpView& op, const device::Choice& choice) {
  const TensorType& whole = op.outputs[0];
  Part part = partOf(whole, ops::sliceAxes(op, whole.shape), choice.outputs[0]);
  std::vector<Move> moves;
  moves.push_back({.copy = {turned(part.axes), byteSize(whole.dtype)}, .to = part.start});
  return std::make_unique<Moves>(std::move(moves), whole.bytes());
}

std::unique_ptr<Kernel> makeConcat(const ir::OpView& op, const device::Choice& choice) {
  const TensorType& whole = op.outputs[0];
  std::vector<Move> moves;
  for (const Part& part : partsAlong(op, whole, op.inputs, choice.outputs[0])) {
    moves.push_back({.copy = {turned(part.axes), byteSize(whole.dtype)},
                     .input = moves.size(),
                     .to = part.start});
  }
  return std::make_unique<Moves>(std::move(moves));
}

std::unique_ptr<Kernel> makeSplit(const ir::OpView& op, const device::Choice& choice) {
  const TensorType& whole = op.inputs[0];
  std::vector<Move> moves;
  for (const Part& part : partsAlong(op, whole, op.outputs, choice.inputs[0])) {
    moves.push_back(
        {.copy = {part.axes, byteSize(whole.dtype)}, .output = moves.size(), .from = part.start});
  }
  return std::make_unique<Moves>(std::move(moves));
}

std::unique_ptr<Kernel> makeReverse(const ir::OpView& op, const device::Choice& choice) {
  const TensorType& whole = op.inputs[0];
  const std::vector<bool> turn = ops::reducedAxes(op);  // the same list of axes, none meaning all
  std::vector<ops::SliceAxis> view;
  for (std::size_t i = 0; i < turn.size(); ++i) {
    const std::int64_t extent = whole.shape.dims()[i];
    view.push_back(turn[i] ? ops::SliceAxis{extent - 1, -1, extent} : ops::SliceAxis{0, 1, extent});
  }
  const Part part = partOf(whole, view, choice.inputs[0]);
  std::vector<Move> moves;
  moves.push_back({.copy = {part.axes, byteSize(whole.dtype)}, .from = part.start});
  return std::make_unique<Moves>(std::move(moves));
}

std::unique_ptr<Kernel> makeTile(const ir::OpView& op, const device::Choice& choice) {
  const Shape& small = op.inputs[0].shape;
  const std::vector<std::int64_t> from = device::strides(small, choice.inputs[0]);
  const std::vector<std::int64_t> to = device::strides(op.outputs[0].shape, choice.outputs[0]);
  std::vector<CopyAxis> axes;
  for (const std::size_t i : storageOrder(small.rank(), choice.inputs[0])) {
    const std::int64_t extent = small.dims()[i];
    axes.push_back({op.attrs.integers("repeats")[i], 0, to[i] * extent});
    axes.push_back({extent, from[i], to[i]});
  }
  std::vector<Move> moves;
  moves.push_back({.copy = {axes, byteSize(op.inputs[0].dtype)}});
  return std::make_unique<Moves>(std::move(moves));
}

}  // namespace sluice::devices::cpu
