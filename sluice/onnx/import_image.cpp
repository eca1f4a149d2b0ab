// Translations of ops on images: resizing, sampling, regions, blocks of pixels.
#include <algorithm>
#include <array>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/onnx/deciding.h"
#include "sluice/onnx/non_max_suppression.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/image_ops.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

/// Extents must be known to stay in 64 bits before they are cast.
constexpr double kMaxExtent = 1e15;

Ints scaledSizes(const Shape& shape, const std::vector<double>& scales) {
  if (static_cast<std::int64_t>(scales.size()) != shape.rank()) {
    raise<InvalidArgument>(
        "expected {} scales for {}, got {}", shape.rank(), shape.str(), scales.size());
  }
  Ints sizes;
  for (std::int64_t i = 0; i < shape.rank(); ++i) {
    const double size =
        std::floor(static_cast<double>(shape[i]) * scales[static_cast<std::size_t>(i)]);
    if (!(size >= 0.0 && size <= kMaxExtent)) {
      raise<InvalidArgument>(
          "scale {} of axis {} is not possible", scales[static_cast<std::size_t>(i)], i);
    }
    sizes.push_back(static_cast<std::int64_t>(size));
  }
  return sizes;
}

/// Upsample, and Resize before version 11.
std::vector<Value> resizeByScales(Node& node) {
  const bool attribute = node.op() == "Upsample" && node.version() < 9;
  std::vector<double> scales = attribute ? node.reals("scales") : node.realsOf(1);
  Ints sizes = scaledSizes(node.shape(0), scales);
  return {ops::resize(node.b,
                      node.input(0),
                      {.sizes = std::move(sizes),
                       .scales = std::move(scales),
                       .mode = node.text("mode", "nearest"),
                       .coordinates = "asymmetric",
                       .nearest = "floor"})};
}

/// An operand that may be given without elements. A constant one is not read as a weight.
bool given(Node& node, std::size_t i) {
  return node.has(i) &&
         (node.isConstant(i) ? node.constant(i).shape() : node.shape(i)).elements() > 0;
}

std::vector<Value> resize(Node& node) {
  if (node.version() < 11) {
    return resizeByScales(node);
  }
  const std::string mode = node.text("mode", "nearest");
  const std::string coordinates = node.text("coordinate_transformation_mode", "half_pixel");
  const std::string nearest = node.text("nearest_mode", "round_prefer_floor");
  const Shape shape = node.shape(0);
  ops::ResizeOptions options{.mode = mode,
                             .coordinates = coordinates,
                             .nearest = nearest,
                             .cubicCoefficient = node.real("cubic_coeff_a", -0.75),
                             .excludeOutside = node.flag("exclude_outside"),
                             .extrapolationValue = node.real("extrapolation_value")};
  if (coordinates == "tf_crop_and_resize") {
    options.roi = node.realsOf(1);
  }
  if (given(node, 3)) {
    options.sizes = node.integersOf(3);
  } else if (given(node, 2)) {
    options.scales = node.realsOf(2);
    std::vector<double> grown = options.scales;
    for (std::size_t i = 0; i < grown.size() && options.roi.size() == 2 * grown.size(); ++i) {
      grown[i] *= options.roi[i + grown.size()] - options.roi[i];
    }
    options.sizes = scaledSizes(shape, grown);
  } else {
    raise<InvalidArgument>("either scales or sizes must be given");
  }
  return {ops::resize(node.b, node.input(0), options)};
}

std::vector<Value> gridSample(Node& node) {
  const std::string mode = node.text("mode", "bilinear");
  const std::string padding = node.text("padding_mode", "zeros");
  return {ops::gridSample(
      node.b,
      node.input(0),
      ops::cast(node.b, node.input(1), node.dtype(0)),
      {.mode = mode, .padding = padding, .alignCorners = node.flag("align_corners")})};
}

std::vector<Value> roiAlign(Node& node) {
  const std::string mode = node.text("mode", "avg");
  const bool halfPixel = node.version() >= 16 &&
                         node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  return {ops::roiAlign(node.b,
                        node.input(0),
                        node.input(1),
                        node.input(2),
                        {.rows = node.integer("output_height", 1),
                         .columns = node.integer("output_width", 1),
                         .samplingRatio = node.integer("sampling_ratio"),
                         .spatialScale = node.real("spatial_scale", 1.0),
                         .halfPixel = halfPixel,
                         .mode = mode})};
}

/// The shape that max pooling was given, if nothing was cut off.
Shape unpooledShape(Node& node) {
  const Shape& shape = node.shape(0);
  const Ints kernel = node.integers("kernel_shape");
  Ints strides = node.integers("strides");
  Ints pads = node.integers("pads");
  strides.resize(strides.empty() ? kernel.size() : strides.size(), 1);
  pads.resize(pads.empty() ? 2 * kernel.size() : pads.size(), 0);
  if (static_cast<std::int64_t>(kernel.size()) + 2 != shape.rank() ||
      strides.size() != kernel.size() || pads.size() != 2 * kernel.size()) {
    raise<InvalidArgument>("kernel, strides and pads must fit the spatial axes of {}", shape.str());
  }
  Ints dims = {shape[0], shape[1]};
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const std::int64_t extent = shape.dims()[i + 2];
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(extent - 1, strides[i], &reach) ||
        __builtin_add_overflow(reach, kernel[i] - pads[i], &reach) ||
        __builtin_sub_overflow(reach, pads[i + kernel.size()], &reach)) {
      raise<InvalidArgument>("strides of axis {} are too large", i + 2);
    }
    dims.push_back(reach);
  }
  return Shape(std::move(dims));
}

std::vector<Value> maxUnpool(Node& node) {
  const Shape shape = unpooledShape(node);
  const Value zeros = ops::full(node.b, {node.dtype(0), Shape{shape.elements()}}, 0.0);
  const Shape flat{node.shape(0).elements()};
  const Value placed = ops::scatterElements(node.b,
                                            zeros,
                                            ops::reshape(node.b, node.input(1), flat),
                                            ops::reshape(node.b, node.input(0), flat));
  Value y = ops::reshape(node.b, placed, shape);
  if (node.has(2)) {
    const Shape wanted(node.integersOf(2));
    Ints after;
    for (std::int64_t i = 0; i < shape.rank(); ++i) {
      if (wanted.rank() != shape.rank() || wanted[i] < shape[i]) {
        raise<InvalidArgument>("output_shape {} must be at least {}", wanted.str(), shape.str());
      }
      after.push_back(wanted[i] - shape[i]);
    }
    y = ops::pad(node.b, y, Ints(after.size(), 0), after);
  }
  return {y};
}

std::vector<Value> depthToSpace(Node& node) {
  const std::string mode = node.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") {
    raise<InvalidArgument>("mode must be DCR or CRD, got '{}'", mode);
  }
  return {ops::depthToSpace(node.b, node.input(0), node.integer("blocksize"), mode == "DCR")};
}

std::vector<Value> spaceToDepth(Node& node) {
  return {ops::spaceToDepth(node.b, node.input(0), node.integer("blocksize"))};
}

std::vector<Value> suppress(Node& node) {
  const HostTensor boxes = decidingOperand(node, 0);
  const HostTensor scores = decidingOperand(node, 1);
  for (const std::size_t i : {2U, 3U, 4U}) {
    if (node.has(i)) {
      decidingOperand(node, i);
    }
  }
  const std::int64_t kept = node.integerOf(2, 0);
  const std::int64_t count = scores.shape().rank() == 0 ? 0 : scores.shape().dims().back();
  // Each score is compared with all that are kept.
  node.countWork(10.0 * static_cast<double>(scores.shape().elements()) *
                 static_cast<double>(std::clamp<std::int64_t>(kept, 0, count)));
  return {node.b.constant(
      nonMaxSuppression(boxes,
                        scores,
                        {.maxPerClass = kept,
                         .overlap = node.realOf(3, 0.0),
                         .score = node.has(4) ? std::optional(node.realOf(4, 0.0)) : std::nullopt,
                         .centers = node.flag("center_point_box")}))};
}

constexpr std::array kImageTranslations = {
    Translation{"DepthToSpace", depthToSpace},
    Translation{"GridSample", gridSample},
    Translation{"MaxUnpool", maxUnpool},
    Translation{"NonMaxSuppression", suppress},
    Translation{"Resize", resize},
    Translation{"RoiAlign", roiAlign},
    Translation{"SpaceToDepth", spaceToDepth},
    Translation{"Upsample", resizeByScales},
};

}  // namespace

std::span<const Translation> imageTranslations() {
  return kImageTranslations;
}

}  // namespace sluice::onnx
