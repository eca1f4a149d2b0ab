// Shared by grid_sample and its gradient: attributes, and the elements of an axis that a sample
// reads.
#pragma once

#include <array>
#include <cstdint>

#include "sluice/ir/op_def.h"

namespace sluice::ops {

inline constexpr std::array<ir::AttrSpec, 3> kGridSampleAttrs = {
    {{.name = "mode", .kind = ir::AttrKind::Text, .text = "bilinear"},
     {.name = "padding", .kind = ir::AttrKind::Text, .text = "zeros"},
     {.name = "alignCorners", .kind = ir::AttrKind::Bool}}};

/// The elements of one axis that a sample reads: their indices, their weights, and the derivatives
/// of the weights by the grid's coordinate. An index of -1 lies outside; its element counts as 0.
struct GridTaps {
  int count = 0;
  std::array<std::int64_t, 4> index = {};
  std::array<double, 4> weight = {};
  std::array<double, 4> slope = {};
};

enum class GridMode : std::uint8_t { Nearest, Bilinear, Bicubic };
enum class GridPadding : std::uint8_t { Zeros, Border, Reflection };

/// One axis of an image; converts a coordinate of the grid to taps.
class GridAxis {
 public:
  GridAxis(const ir::OpView& op, std::int64_t extent);
  GridTaps at(double number) const;

 private:
  struct Padded {
    double at;
    double slope;
  };
  Padded pad(double at) const;
  std::int64_t element(double at) const;

  GridMode mode_;
  GridPadding padding_;
  bool align_;
  double extent_;
};

/// Checks the attributes and both operands, and returns the type of the samples. Throws
/// InvalidArgument.
TensorType inferGridSample(const ir::OpView& op);

}  // namespace sluice::ops
