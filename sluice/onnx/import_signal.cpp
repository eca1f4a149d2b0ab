// Translations of signal ops. Complex numbers are pairs in the last axis; windows and mel matrices
// depend on constants only and are computed here.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

/// x [.., 1 or 2] as pairs.
Value asComplex(Node& node, Value x) {
  ir::GraphBuilder& b = node.b;
  const Shape shape = b.shape(x);
  const std::int64_t parts = shape.rank() == 0 ? 0 : shape.dims().back();
  if (parts != 1 && parts != 2) {
    raise<InvalidArgument>("the last axis must have one or two parts of a number, got {}",
                           shape.str());
  }
  if (parts == 2) {
    return x;
  }
  Ints after(shape.dims().size(), 0);
  after.back() = 1;
  return ops::pad(b, x, Ints(shape.dims().size(), 0), after);
}

/// The first `extent` numbers along the axis, zeros behind those there are.
Value withLength(Node& node, Value x, std::int64_t axis, std::int64_t extent) {
  const Shape shape = node.b.shape(x);
  const auto at = static_cast<std::size_t>(axis);
  const std::size_t rank = shape.dims().size();
  if (extent < 1) {
    raise<InvalidArgument>("a transform needs at least one number, got the length {}", extent);
  }
  if (shape[axis] >= extent) {
    Ints ends = shape.dims();
    ends[at] = extent;
    return shape[axis] == extent ? x : ops::slice(node.b, x, Ints(rank, 0), ends);
  }
  Ints after(rank, 0);
  after[at] = extent - shape[axis];
  return ops::pad(node.b, x, Ints(rank, 0), after);
}

std::vector<Value> dft(Node& node) {
  const Value x = node.input(0);
  const Shape shape = node.b.shape(x);
  const std::int64_t axis = normalizeAxis(node.integer("axis", 1), shape.rank());
  const bool inverse = node.flag("inverse");
  const bool oneSided = node.flag("onesided");
  if (axis == shape.rank() - 1) {
    raise<InvalidArgument>("axis {} of {} is that of the parts", axis, shape.str());
  }
  if (oneSided && inverse) {
    raise<InvalidArgument>("an inverse transform cannot be onesided");
  }
  const std::int64_t length = node.integerOf(1, shape[axis]);
  const Value fitted = withLength(node, x, axis, length);
  const Value y = ops::dft(node.b, asComplex(node, fitted), axis, inverse);
  return {oneSided ? withLength(node, y, axis, length / 2 + 1) : y};
}

/// The length of the frames: the operand's, else the window's.
std::int64_t frameLength(Node& node) {
  const std::int64_t window = node.has(2) ? node.shape(2).elements() : 0;
  const std::int64_t length = node.integerOf(3, window);
  if (length < 1 || (window != 0 && window != length)) {
    raise<InvalidArgument>("frames of length {} do not fit a window of {}", length, window);
  }
  return length;
}

std::vector<Value> stft(Node& node) {
  ir::GraphBuilder& b = node.b;
  Value signal = node.input(0);
  if (b.shape(signal).rank() == 2) {
    signal = ops::unsqueeze(b, signal, {2});
  }
  const std::int64_t step = node.integerOf(1, 0);
  const std::int64_t length = frameLength(node);
  const Shape shape = b.shape(signal);
  if (shape.rank() != 3 || step < 1 || shape[1] < length) {
    raise<InvalidArgument>(
        "frames of {} numbers every {} cannot be cut from {}", length, step, shape.str());
  }
  const std::int64_t frames = (shape[1] - length) / step + 1;
  node.countConstant(static_cast<double>(frames) * static_cast<double>(length), DType::I64);
  HostTensor positions(DType::I64, Shape{frames, length});
  for (std::int64_t i = 0; i < frames * length; ++i) {
    const std::int64_t frame = i / length;
    positions.set(i, static_cast<double>(frame * step + i % length));
  }
  Value cut = ops::gather(b, signal, b.constant(std::move(positions)), 1);
  if (node.has(2)) {
    cut = ops::mul(b, cut, ops::reshape(b, node.input(2), Shape{length, 1}));
  }
  const Value y = ops::dft(b, asComplex(node, cut), 2);
  return {node.flag("onesided", true) ? withLength(node, y, 2, length / 2 + 1) : y};
}

/// a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N).
struct Cosines {
  double a0;
  double a1;
  double a2;
};
constexpr Cosines kBlackman = {0.42, 0.5, 0.08};
constexpr Cosines kHamming = {25.0 / 46.0, 21.0 / 46.0, 0.0};
constexpr Cosines kHann = {0.5, 0.5, 0.0};

template <const Cosines& kCosines>
std::vector<Value> window(Node& node) {
  const std::int64_t size = node.integerOf(0, 0);
  if (size < 0) {
    raise<InvalidArgument>("a window cannot have {} numbers", size);
  }
  const DType dtype = node.dtypeAttr("output_datatype", DType::F32);
  node.countConstant(static_cast<double>(size), dtype);
  HostTensor numbers(dtype, Shape{size});
  const auto period = static_cast<double>(node.flag("periodic", true) ? size : size - 1);
  for (std::int64_t n = 0; n < size; ++n) {
    const double turn = period > 0 ? 2.0 * std::numbers::pi * static_cast<double>(n) / period : 0.0;
    numbers.set(n, kCosines.a0 - kCosines.a1 * std::cos(turn) + kCosines.a2 * std::cos(2.0 * turn));
  }
  return {node.b.constant(std::move(numbers))};
}

struct MelOptions {
  std::int64_t bins;
  std::int64_t length;
  double rate;
  double low;
  double high;
};

MelOptions melOptions(Node& node) {
  const MelOptions o{node.integerOf(0, 0),
                     node.integerOf(1, 0),
                     static_cast<double>(node.integerOf(2, 0)),
                     node.realOf(3, 0.0),
                     node.realOf(4, 0.0)};
  if (o.bins < 1 || o.length < 1 || !(o.rate > 0.0) || !(o.low >= 0.0) || !(o.high > o.low)) {
    raise<InvalidArgument>("{} mel bins of a transform of {} from {} to {} at a rate of {}",
                           o.bins,
                           o.length,
                           o.low,
                           o.high,
                           o.rate);
  }
  return o;
}

/// The bins of the transform where the triangles of the mel scale begin, peak and end.
Ints melEdges(const MelOptions& o) {
  constexpr double kFar = 1e15;  // behind every bin, and an integer
  const auto mel = [](double hertz) { return 2595.0 * std::log10(1.0 + hertz / 700.0); };
  const double first = mel(o.low);
  const double step = (mel(o.high) - first) / static_cast<double>(o.bins + 2);
  Ints edges;
  for (std::int64_t i = 0; i < o.bins + 2; ++i) {
    const double at = first + static_cast<double>(i) * step;
    const double hertz = 700.0 * (std::pow(10.0, at / 2595.0) - 1.0);
    const double bin = std::floor(static_cast<double>(o.length + 1) * hertz / o.rate);
    edges.push_back(static_cast<std::int64_t>(std::min(kFar, bin)));
  }
  return edges;
}

std::vector<Value> melWeightMatrix(Node& node) {
  const MelOptions options = melOptions(node);
  const std::int64_t rows = options.length / 2 + 1;
  const DType dtype = node.dtypeAttr("output_datatype", DType::F32);
  node.countConstant(static_cast<double>(rows) * static_cast<double>(options.bins), dtype);
  const Ints edges = melEdges(options);
  HostTensor weights(dtype, Shape{rows, options.bins});
  for (std::int64_t bin = 0; bin < options.bins; ++bin) {
    const std::int64_t low = edges[static_cast<std::size_t>(bin)];
    const std::int64_t peak = edges[static_cast<std::size_t>(bin) + 1];
    const std::int64_t high = edges[static_cast<std::size_t>(bin) + 2];
    const auto put = [&](std::int64_t row, double value) {
      if (row < rows) {
        weights.set(row * options.bins + bin, value);
      }
    };
    if (low == peak) {
      put(peak, 1.0);
    }
    for (std::int64_t row = low; row <= std::min(peak, rows - 1) && low < peak; ++row) {
      put(row, static_cast<double>(row - low) / static_cast<double>(peak - low));
    }
    for (std::int64_t row = peak; row < std::min(high, rows); ++row) {
      put(row, static_cast<double>(high - row) / static_cast<double>(high - peak));
    }
  }
  return {node.b.constant(std::move(weights))};
}

constexpr std::array kSignalTranslations = {
    Translation{"BlackmanWindow", window<kBlackman>},
    Translation{"DFT", dft},
    Translation{"HammingWindow", window<kHamming>},
    Translation{"HannWindow", window<kHann>},
    Translation{"MelWeightMatrix", melWeightMatrix},
    Translation{"STFT", stft},
};

}  // namespace

std::span<const Translation> signalTranslations() {
  return kSignalTranslations;
}

}  // namespace sluice::onnx
