// Forms of ops on images: resizing, sampling, regions.
#include <algorithm>
#include <array>
#include <cmath>

#include "sluice/onnx/model_writer.h"

namespace sluice::onnx {
namespace {

using Reals = std::vector<double>;

HostTensor realList(DType dtype, const Reals& numbers) {
  return cast(HostTensor::of<double>(Shape{static_cast<std::int64_t>(numbers.size())},
                                     std::span<const double>(numbers)),
              dtype);
}

bool fitsFloat(const Reals& numbers) {
  return std::ranges::all_of(numbers,
                             [](double number) { return static_cast<float>(number) == number; });
}

/// The extents that the standard computes from scales; a crop scales the part of the input it
/// takes.
bool scalesGiveSizes(const Shape& shape, const ir::Op& op) {
  const Reals& scales = op.attrs.reals("scales");
  const Reals& roi = op.attrs.reals("roi");
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const double part = roi.empty() ? 1.0 : roi[i + scales.size()] - roi[i];
    const double size = std::floor(static_cast<double>(shape.dims()[i]) * (scales[i] * part));
    if (size != static_cast<double>(op.attrs.integers("sizes")[i])) {
      return false;
    }
  }
  return true;
}

/// Sizes and scales are never both given.
void writeResize(ModelWriter& writer, const ir::Op& op) {
  const Reals& roi = op.attrs.reals("roi");
  const Reals& scales = op.attrs.reals("scales");
  std::vector<std::string> inputs = {writer.operands(op)[0], "", ""};
  if (!roi.empty()) {
    inputs[1] = writer.constant(realList(fitsFloat(roi) ? DType::F32 : DType::F64, roi));
  }
  if (scales.empty()) {
    inputs.push_back(writer.integers(op.attrs.integers("sizes")));
  } else {
    inputs[2] = writer.constant(realList(DType::F32, scales));
  }
  writer.addNode(op,
                 {"Resize",
                  std::move(inputs),
                  {{"mode", op.attrs.text("mode")},
                   {"coordinate_transformation_mode", op.attrs.text("coordinates")},
                   {"nearest_mode", op.attrs.text("nearest")},
                   {"cubic_coeff_a", op.attrs.real("cubicCoefficient")},
                   {"exclude_outside", op.attrs.flag("excludeOutside") ? 1 : 0},
                   {"extrapolation_value", op.attrs.real("extrapolationValue")}}});
}

/// One way to place elements left the standard with version 13.
Fit fitResize(const UsedGraph& graph, const ir::Op& op) {
  const Reals& scales = op.attrs.reals("scales");
  if (op.attrs.text("coordinates") == "tf_half_pixel_for_nn" || !fitsFloat(scales) ||
      !scalesGiveSizes(graph.shape(op, 0), op)) {
    return Fit::None;
  }
  return fitOfReals(
      std::array{op.attrs.real("cubicCoefficient"), op.attrs.real("extrapolationValue")});
}

void writeGridSample(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"GridSample",
                  writer.operands(op),
                  {{"mode", op.attrs.text("mode")},
                   {"padding_mode", op.attrs.text("padding")},
                   {"align_corners", op.attrs.flag("alignCorners") ? 1 : 0}}});
}

void writeRoiAlign(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"RoiAlign",
                  writer.operands(op),
                  {{"mode", op.attrs.text("mode")},
                   {"output_height", op.attrs.integer("rows")},
                   {"output_width", op.attrs.integer("columns")},
                   {"sampling_ratio", op.attrs.integer("samplingRatio")},
                   {"spatial_scale", op.attrs.real("spatialScale")},
                   {"coordinate_transformation_mode",
                    op.attrs.flag("halfPixel") ? "half_pixel" : "output_half_pixel"}}});
}

Fit fitRoiAlign(const UsedGraph& /*graph*/, const ir::Op& op) {
  return fitOfReals(std::array{op.attrs.real("spatialScale")});
}

constexpr std::array kImageForms = {
    StandardForm{"grid_sample", writeGridSample},
    StandardForm{"resize", writeResize, fitResize},
    StandardForm{"roi_align", writeRoiAlign, fitRoiAlign},
};

}  // namespace

std::span<const StandardForm> imageForms() {
  return kImageForms;
}

}  // namespace sluice::onnx
