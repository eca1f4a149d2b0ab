// Shared by grid_sample and its gradient: attributes, and which elements of an axis a place
// touches.
#pragma once

#include <array>
#include <cstdint>

#include "sluice/ir/op_def.h"

namespace sluice::ops {

inline constexpr std::array<ir::AttrSpec, 3> kGridSampleAttrs = {
    {{.name = "mode", .kind = ir::AttrKind::Text, .text = "bilinear"},
     {.name = "padding", .kind = ir::AttrKind::Text, .text = "zeros"},
     {.name = "alignCorners", .kind = ir::AttrKind::Bool}}};

/// The elements of one axis that a place takes from: their weights and how these change with the
/// grid's number. An index of -1 is outside and counts as 0.
struct GridTaps {
  int count = 0;
  std::array<std::int64_t, 4> index = {};
  std::array<double, 4> weight = {};
  std::array<double, 4> slope = {};
};

enum class GridMode : std::uint8_t { Nearest, Bilinear, Bicubic };
enum class GridPadding : std::uint8_t { Zeros, Border, Reflection };

/// One axis of an image: from a number of the grid to taps.
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

/// Checks the attributes and both operands; the type of the samples. Throws InvalidArgument.
TensorType inferGridSample(const ir::OpView& op);

}  // namespace sluice::ops
