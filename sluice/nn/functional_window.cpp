// Convolutions, pooling and the image functions of functional.h.
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/image_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/window_ops.h"

namespace sluice::nn {
namespace {

using ir::GraphBuilder;
using ir::Value;

/// One entry per spatial axis.
Extents perAxis(const Extents& given,
                std::int64_t axes,
                std::string_view op,
                std::string_view what) {
  const auto count = static_cast<std::int64_t>(given.size());
  if (count != 1 && count != axes) {
    raise<InvalidArgument>("{}: {} has {} entries, expected 1 or {}", op, what, count, axes);
  }
  return count == axes ? given : Extents(static_cast<std::size_t>(axes), given[0]);
}

/// The same padding before and after each axis.
Extents bothSides(Extents padding) {
  const Extents before = padding;
  padding.insert(padding.end(), before.begin(), before.end());
  return padding;
}

void requireWindowRanks(std::string_view op, const Tensor& x, const Tensor& w, std::int64_t rank) {
  if (x.rank() != rank || w.rank() != rank) {
    raise<InvalidArgument>("{}: expected an input and a weight of rank {}, got {} and {}",
                           op,
                           rank,
                           x.type().str(),
                           w.type().str());
  }
}

/// Adds a bias [channels], if there is one.
Tensor withChannelBias(std::string_view op, const Tensor& y, const Tensor& bias) {
  if (!bias.defined()) {
    return y;
  }
  const std::int64_t channels = y.shape(1);
  if (bias.shape() != Shape{channels}) {
    raise<InvalidArgument>("{}: the bias is {}, expected [{}]", op, bias.type().str(), channels);
  }
  Extents dims(static_cast<std::size_t>(y.rank() - 1), 1);
  dims[0] = channels;
  GraphBuilder& b = bias.builder();
  return {b, ops::add(b, y.value(), ops::reshape(b, bias.value(), Shape(std::move(dims))))};
}

Tensor convNd(const Tensor& input,
              const Tensor& weight,
              const ConvOptions& options,
              const Tensor& offset,
              std::int64_t axes) {
  const std::string op = fmt::format("conv{}d", axes);
  const auto [x, w, bias] = operands(op, input, weight, offset);
  requireWindowRanks(op, x, w, axes + 2);
  GraphBuilder& b = x.builder();
  Value y = ops::conv(b,
                      x.value(),
                      w.value(),
                      {.strides = perAxis(options.stride, axes, op, "stride"),
                       .pads = bothSides(perAxis(options.padding, axes, op, "padding")),
                       .dilations = perAxis(options.dilation, axes, op, "dilation"),
                       .groups = options.groups});
  if (auto& group = Tracer::current().openMultiConv()) {
    group->push_back(y.op);
  }
  return withChannelBias(op, {b, y}, bias);
}

/// The extents of the transpose's result, without batch and channels.
Extents transposedExtents(const Tensor& x,
                          const Tensor& w,
                          const ops::ConvOptions& conv,
                          const Extents& outputPadding) {
  Extents result;
  for (std::size_t i = 0; i < outputPadding.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 2;
    result.push_back((x.shape(axis) - 1) * conv.strides[i] - 2 * conv.pads[i] +
                     conv.dilations[i] * (w.shape(axis) - 1) + outputPadding[i] + 1);
    if (outputPadding[i] < 0 || outputPadding[i] >= std::max(conv.strides[i], conv.dilations[i])) {
      raise<InvalidArgument>(
          "convTranspose: an output padding is less than the stride or the dilation, got {}",
          outputPadding[i]);
    }
  }
  return result;
}

Tensor convTransposeNd(const Tensor& input,
                       const Tensor& weight,
                       const ConvTransposeOptions& options,
                       const Tensor& offset,
                       std::int64_t axes) {
  const std::string op = fmt::format("convTranspose{}d", axes);
  const auto [x, w, bias] = operands(fmt::format("conv_transpose{}d", axes), input, weight, offset);
  requireWindowRanks(op, x, w, axes + 2);
  if (options.groups < 1 || x.shape(1) != w.shape(0) || x.shape(1) % options.groups != 0) {
    raise<InvalidArgument>(
        "{}: expected a weight [{}, out channels / {}, kernel] for an input {}, got {}",
        op,
        x.shape(1),
        options.groups,
        x.type().str(),
        w.type().str());
  }
  const ops::ConvOptions conv{.strides = perAxis(options.stride, axes, op, "stride"),
                              .pads = bothSides(perAxis(options.padding, axes, op, "padding")),
                              .dilations = perAxis(options.dilation, axes, op, "dilation"),
                              .groups = options.groups};
  Extents dims = {x.shape(0), w.shape(1) * options.groups};
  for (const std::int64_t extent :
       transposedExtents(x, w, conv, perAxis(options.outputPadding, axes, op, "outputPadding"))) {
    dims.push_back(extent);
  }
  GraphBuilder& b = x.builder();
  const Value y = ops::convGradInput(b, w.value(), x.value(), Shape(std::move(dims)), conv);
  return withChannelBias(op, {b, y}, bias);
}

using Pool = Value (*)(GraphBuilder&, Value, const ops::PoolOptions&);

Tensor poolNd(std::string_view kind,
              Pool pool,
              const Tensor& given,
              const PoolWindow& window,
              std::int64_t axes) {
  const std::string op = fmt::format("{}Pool{}d", kind, axes);
  const Tensor x = operand(fmt::format("{}_pool{}d", kind, axes), given);
  if (x.rank() != axes + 2) {
    raise<InvalidArgument>("{}: expected [batch, channels{}], got {}",
                           op,
                           axes == 1   ? ", length"
                           : axes == 2 ? ", height, width"
                                       : ", 3 axes",
                           x.type().str());
  }
  ops::PoolOptions options{.kernel = perAxis(window.kernel, axes, op, "kernel"),
                           .pads = bothSides(perAxis(window.padding, axes, op, "padding")),
                           .ceilMode = window.ceilMode};
  options.strides =
      window.stride.empty() ? options.kernel : perAxis(window.stride, axes, op, "stride");
  if (pool == ops::maxPool) {
    options.dilations = perAxis(window.dilation, axes, op, "dilation");
  } else {
    options.countIncludePad = window.countIncludePad;
  }
  return {x.builder(), pool(x.builder(), x.value(), options)};
}

/// A part of an axis becomes one element, for each of `count` almost equal parts.
Tensor pooledAxis(const Tensor& x, std::int64_t axis, std::int64_t count, bool largest) {
  const std::int64_t extent = x.shape(axis);
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t end = ((i + 1) * extent + count - 1) / count;
    const Tensor part = slice(x, axis, i * extent / count, end);
    parts.push_back(largest ? max(part, {axis}, true) : mean(part, {axis}, true));
  }
  return concat(parts, axis);
}

Tensor adaptivePoolNd(const Tensor& given, const Extents& size, bool largest, std::int64_t axes) {
  const std::string_view kind = largest ? "max" : "avg";
  const std::string op = fmt::format("adaptive{}Pool{}d", largest ? "Max" : "Avg", axes);
  Tensor x = operand(fmt::format("adaptive_{}_pool{}d", kind, axes), given);
  if (x.rank() != axes + 2) {
    raise<InvalidArgument>(
        "{}: expected an input with {} spatial axes, got {}", op, axes, x.type().str());
  }
  Extents wanted = perAxis(size, axes, op, "size");
  Extents window;
  bool even = true;
  for (std::int64_t i = 0; i < axes; ++i) {
    std::int64_t& count = wanted[static_cast<std::size_t>(i)];
    const std::int64_t extent = x.shape(i + 2);
    count = count == -1 ? extent : count;
    if (count < 1) {
      raise<InvalidArgument>("{}: a size is positive or -1, got {}", op, count);
    }
    even = even && extent % count == 0;
    window.push_back(extent / count);
  }
  if (even) {
    return poolNd(kind, largest ? ops::maxPool : ops::avgPool, x, {.kernel = window}, axes);
  }
  for (std::int64_t i = 0; i < axes; ++i) {
    x = pooledAxis(x, i + 2, wanted[static_cast<std::size_t>(i)], largest);
  }
  return x;
}

/// The sizes and scales of all axes, batch and channels included.
ops::ResizeOptions resizeOptions(const Tensor& x, const InterpolateOptions& given) {
  const std::int64_t axes = x.rank() - 2;
  if (given.size.empty() == given.scaleFactor.empty()) {
    raise<InvalidArgument>("interpolate: either a size or scale factors must be given");
  }
  ops::ResizeOptions options{.sizes = {x.shape(0), x.shape(1)}};
  if (!given.size.empty()) {
    const Extents sizes = perAxis(given.size, axes, "interpolate", "size");
    options.sizes.insert(options.sizes.end(), sizes.begin(), sizes.end());
    return options;
  }
  const std::size_t count = given.scaleFactor.size();
  if (count != 1 && count != static_cast<std::size_t>(axes)) {
    raise<InvalidArgument>("interpolate: there are {} factors, expected 1 or {}", count, axes);
  }
  options.scales = {1.0, 1.0};
  for (std::int64_t i = 0; i < axes; ++i) {
    const double scale = given.scaleFactor[count == 1 ? 0 : static_cast<std::size_t>(i)];
    const double extent = std::floor(static_cast<double>(x.shape(i + 2)) * scale);
    if (!(extent >= 1.0 && extent < 1e9)) {
      raise<InvalidArgument>(
          "interpolate: factor {} makes no sensible extent from {}", scale, x.shape(i + 2));
    }
    options.sizes.push_back(static_cast<std::int64_t>(extent));
    options.scales.push_back(scale);
  }
  return options;
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& w, const ConvOptions& options, const Tensor& bias) {
  return convNd(x, w, options, bias, 1);
}

Tensor conv2d(const Tensor& x, const Tensor& w, const ConvOptions& options, const Tensor& bias) {
  return convNd(x, w, options, bias, 2);
}

Tensor conv3d(const Tensor& x, const Tensor& w, const ConvOptions& options, const Tensor& bias) {
  return convNd(x, w, options, bias, 3);
}

Tensor convTranspose1d(const Tensor& x,
                       const Tensor& w,
                       const ConvTransposeOptions& options,
                       const Tensor& bias) {
  return convTransposeNd(x, w, options, bias, 1);
}

Tensor convTranspose2d(const Tensor& x,
                       const Tensor& w,
                       const ConvTransposeOptions& options,
                       const Tensor& bias) {
  return convTransposeNd(x, w, options, bias, 2);
}

Tensor convTranspose3d(const Tensor& x,
                       const Tensor& w,
                       const ConvTransposeOptions& options,
                       const Tensor& bias) {
  return convTransposeNd(x, w, options, bias, 3);
}

Tensor maxPool1d(const Tensor& x, const PoolWindow& window) {
  return poolNd("max", ops::maxPool, x, window, 1);
}

Tensor maxPool2d(const Tensor& x, const PoolWindow& window) {
  return poolNd("max", ops::maxPool, x, window, 2);
}

Tensor maxPool3d(const Tensor& x, const PoolWindow& window) {
  return poolNd("max", ops::maxPool, x, window, 3);
}

Tensor avgPool1d(const Tensor& x, const PoolWindow& window) {
  return poolNd("avg", ops::avgPool, x, window, 1);
}

Tensor avgPool2d(const Tensor& x, const PoolWindow& window) {
  return poolNd("avg", ops::avgPool, x, window, 2);
}

Tensor avgPool3d(const Tensor& x, const PoolWindow& window) {
  return poolNd("avg", ops::avgPool, x, window, 3);
}

Tensor maxPool2d(const Tensor& x,
                 std::int64_t kernel,
                 std::optional<std::int64_t> stride,
                 std::int64_t padding) {
  return maxPool2d(x,
                   {.kernel = {kernel}, .stride = {stride.value_or(kernel)}, .padding = {padding}});
}

Tensor avgPool2d(const Tensor& x,
                 std::int64_t kernel,
                 std::optional<std::int64_t> stride,
                 std::int64_t padding) {
  return avgPool2d(x,
                   {.kernel = {kernel}, .stride = {stride.value_or(kernel)}, .padding = {padding}});
}

Tensor adaptiveAvgPool1d(const Tensor& x, const Extents& size) {
  return adaptivePoolNd(x, size, false, 1);
}

Tensor adaptiveAvgPool2d(const Tensor& x, const Extents& size) {
  return adaptivePoolNd(x, size, false, 2);
}

Tensor adaptiveAvgPool3d(const Tensor& x, const Extents& size) {
  return adaptivePoolNd(x, size, false, 3);
}

Tensor adaptiveMaxPool1d(const Tensor& x, const Extents& size) {
  return adaptivePoolNd(x, size, true, 1);
}

Tensor adaptiveMaxPool2d(const Tensor& x, const Extents& size) {
  return adaptivePoolNd(x, size, true, 2);
}

Tensor adaptiveMaxPool3d(const Tensor& x, const Extents& size) {
  return adaptivePoolNd(x, size, true, 3);
}

Tensor globalAvgPool(const Tensor& x) {
  if (x.shape().rank() < 3) {
    raise<InvalidArgument>("globalAvgPool: expected [batch, channels, spatial axes], got {}",
                           x.type().str());
  }
  std::vector<std::int64_t> axes;
  for (std::int64_t i = 2; i < x.shape().rank(); ++i) {
    axes.push_back(i);
  }
  return mean(x, std::move(axes));
}

Tensor interpolate(const Tensor& given, const InterpolateOptions& options) {
  const Tensor x = operand("interpolate", given);
  if (x.rank() < 3 || x.rank() > 5) {
    raise<InvalidArgument>("interpolate: expected [batch, channels, 1 to 3 axes], got {}",
                           x.type().str());
  }
  ops::ResizeOptions resize = resizeOptions(x, options);
  const std::string_view mode = options.mode;
  if (mode == "area") {
    const Extents size(resize.sizes.begin() + 2, resize.sizes.end());
    return adaptivePoolNd(x, size, false, x.rank() - 2);
  }
  const std::string_view lines = x.rank() == 3   ? "linear"
                                 : x.rank() == 4 ? "bilinear"
                                                 : "trilinear";
  const bool nearest = mode == "nearest" || mode == "nearest-exact";
  if (!nearest && mode != lines && !(mode == "bicubic" && x.rank() == 4)) {
    raise<InvalidArgument>(
        "interpolate: for {} the mode is nearest, nearest-exact, area, {}{}, not {}",
        x.type().str(),
        lines,
        x.rank() == 4 ? " or bicubic" : "",
        mode);
  }
  if (nearest) {
    resize.coordinates = mode == "nearest" ? "asymmetric" : "half_pixel";
    // nearest-exact: of two equally near elements, PyTorch takes the later one.
    resize.nearest = mode == "nearest" ? "floor" : "round_prefer_ceil";
  } else {
    resize.mode = mode == "bicubic" ? "cubic" : "linear";
    resize.coordinates = options.alignCorners ? "align_corners" : "half_pixel";
  }
  return {x.builder(), ops::resize(x.builder(), x.value(), resize)};
}

Tensor gridSample(const Tensor& given, const Tensor& points, const GridSampleOptions& options) {
  const auto [x, grid] = operands("grid_sampler", given, points);
  GraphBuilder& b = x.builder();
  return {grid.builder(), ops::gridSample(b, x.value(), grid.value(), options)};
}

Tensor roiAlign(const Tensor& given,
                const Tensor& boxes,
                const Tensor& batchIndices,
                const RoiAlignOptions& options) {
  const auto [x, regions] = operands("roi_align", given, boxes);
  GraphBuilder& b = x.builder();
  regions.builder();
  return {batchIndices.builder(),
          ops::roiAlign(b, x.value(), regions.value(), batchIndices.value(), options)};
}

Tensor pixelShuffle(const Tensor& x, std::int64_t factor) {
  if (x.rank() != 4 || factor < 1 || x.shape(1) % (factor * factor) != 0) {
    raise<InvalidArgument>(
        "pixelShuffle: expected [batch, channels * {0} * {0}, height, width], got {1}",
        factor,
        x.type().str());
  }
  return {x.builder(), ops::depthToSpace(x.builder(), x.value(), factor, false)};
}

Tensor pixelUnshuffle(const Tensor& x, std::int64_t factor) {
  if (x.rank() != 4 || factor < 1 || x.shape(2) % factor != 0 || x.shape(3) % factor != 0) {
    raise<InvalidArgument>("pixelUnshuffle: {} cannot be cut into blocks of {} x {} pixels",
                           x.type().str(),
                           factor,
                           factor);
  }
  const std::int64_t batch = x.shape(0);
  const std::int64_t channels = x.shape(1);
  const std::int64_t rows = x.shape(2) / factor;
  const std::int64_t columns = x.shape(3) / factor;
  const Tensor blocks = reshape(x, {batch, channels, rows, factor, columns, factor});
  return reshape(permute(blocks, {0, 1, 3, 5, 2, 4}),
                 {batch, channels * factor * factor, rows, columns});
}

}  // namespace sluice::nn
