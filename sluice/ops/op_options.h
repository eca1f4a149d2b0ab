// Options of ops, as plain data. Front ends offer them without seeing the ops, so that a new op
// does not recompile the front ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice::ops {

// Prints tensors for people: brackets per axis, aligned elements, long axes cut to their edges.
// Used by print_tensor.

enum class FloatFormat : std::uint8_t { Auto, Fixed, Scientific, None };

struct TextOptions {
  std::int64_t summariseThreshold = 1000;  ///< larger tensors are cut to their edges; 0: never
  std::int64_t edgeItems = 3;              ///< number of items on each side of a cut
  std::int64_t maxLineWidth = 80;          ///< 0: lines are not broken
  std::int64_t digits = 4;                 ///< digits per number; 0: shortest, not aligned
  FloatFormat floatFormat = FloatFormat::Auto;
  std::string separator = ", ";
  std::string openBracket = "(";
  std::string closeBracket = ")";
};

/// `data` is plain row-major memory.
std::string tensorText(const TensorType& type, const void* data, const TextOptions& options = {});

// Images.
struct ResizeOptions {
  std::vector<std::int64_t> sizes = {};  ///< the result's extents, one per axis
  std::vector<double> scales = {};       ///< empty: sizes divided by extents
  std::string_view mode = "nearest";     ///< nearest, linear or cubic
  /// half_pixel, pytorch_half_pixel, align_corners, asymmetric, tf_half_pixel_for_nn or
  /// tf_crop_and_resize
  std::string_view coordinates = "half_pixel";
  /// round_prefer_floor, round_prefer_ceil, floor or ceil
  std::string_view nearest = "round_prefer_floor";
  double cubicCoefficient = -0.75;
  bool excludeOutside = false;      ///< elements outside get no weight
  std::vector<double> roi = {};     ///< tf_crop_and_resize: all starts, then all ends
  double extrapolationValue = 0.0;  ///< tf_crop_and_resize: the value outside of the region
};

struct GridSampleOptions {
  std::string_view mode = "bilinear";  ///< bilinear, nearest or bicubic
  std::string_view padding = "zeros";  ///< zeros, border or reflection
  bool alignCorners = false;
};

struct RoiAlignOptions {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t samplingRatio = 0;  ///< samples per cell and axis; 0: depends on the region's size
  double spatialScale = 1.0;
  bool halfPixel = true;          ///< the centres of pixels are at halves
  std::string_view mode = "avg";  ///< avg or max
};

// Linear algebra.
struct MatMulOptions {
  bool transposeA = false;  ///< swaps the last two axes
  bool transposeB = false;
};

// Losses.
enum class Reduction : std::uint8_t { Mean, Sum, None };

struct NllOptions {
  Reduction reduction = Reduction::Mean;
  std::int64_t ignoreIndex = -100;  ///< terms with this label are ignored; a mean of none is NaN
};

struct CrossEntropyOptions {
  Reduction reduction = Reduction::Mean;
  std::int64_t ignoreIndex = -100;
  double labelSmoothing = 0.0;
};

struct CtcOptions {
  Reduction reduction = Reduction::Mean;  ///< Mean: the mean of the losses per label
  std::int64_t blank = 0;
  bool zeroInfinity = false;  ///< targets without any alignment cost nothing
};

// Normalization.
struct NormOptions {
  std::int64_t axis = -1;  ///< this axis and all later ones are normalized
  double epsilon = 1e-5;
};

// Reductions.
struct CumSumOptions {
  bool exclusive = false;  ///< leaves out the element itself
  bool reverse = false;    ///< sums from the end
};

// Convolution and pooling. Empty lists mean no padding, and strides and dilations of 1. Pads list
// the padding before every axis, then the padding after every axis.
struct ConvOptions {
  std::vector<std::int64_t> strides = {};
  std::vector<std::int64_t> pads = {};
  std::vector<std::int64_t> dilations = {};
  std::int64_t groups = 1;
};

struct PoolOptions {
  std::vector<std::int64_t> kernel = {};
  std::vector<std::int64_t> strides = {};
  std::vector<std::int64_t> pads = {};
  std::vector<std::int64_t> dilations = {};  ///< max pooling only
  bool ceilMode = false;                     ///< a last, partial window counts
  bool countIncludePad = false;              ///< average pooling only
};

// Of the vendor's domain.
struct PrintOptions {
  std::string title = {};
  bool printGradient = true;  ///< also print the gradient, with "_gradient" added to the title
  TextOptions text = {};
};

struct CtcDecoderOptions {
  std::int64_t blank = 0;
  std::int64_t beamWidth = 100;
  std::int64_t topPaths = 1;
};

/// How the values of replicas are combined; Local: not at all. The numbers are the vendor's.
enum class CollectiveOperator : std::uint8_t {
  Add,
  Mean,
  Mul,
  Min,
  Max,
  LogicalAnd,
  LogicalOr,
  SquareAdd,
  Local
};

/// Tensors of one type that a model keeps from run to run. The vendor keeps them in the host's
/// memory. Here they are a variable "remote_buffer/<id>" [rows, ...] that starts with zeros and is
/// on the device of the ops that use it, like everything that a model changes in its forward pass.
struct RemoteBuffer {
  std::int64_t id = 0;
  std::int64_t rows = 1;
};

}  // namespace sluice::ops

#pragma GCC visibility pop
