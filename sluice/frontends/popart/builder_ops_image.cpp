// AiOnnx: ops on images, and random numbers.
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/op_attrs.h"
#include "sluice/ops/image_ops.h"
#include "sluice/ops/random_ops.h"

namespace sluice {
namespace {

HostTensor floats(const std::vector<double>& numbers) {
  const std::vector<float> narrow(numbers.begin(), numbers.end());
  return HostTensor::of<float>(Shape{static_cast<std::int64_t>(narrow.size())},
                               std::span<const float>(narrow));
}

}  // namespace

TensorId AiOnnx::gridsample(const TensorId& x,
                            const TensorId& grid,
                            const ops::GridSampleOptions& options) {
  return one("GridSample",
             {x, grid},
             {{"mode", options.mode},
              {"padding_mode", options.padding},
              {"align_corners", options.alignCorners}});
}

TensorId AiOnnx::nonmaxsuppression(const TensorId& boxes,
                                   const TensorId& scores,
                                   const NonMaxSuppressionOptions& options) {
  std::vector<OpOperand> inputs = {
      boxes, scores, Ints{options.maxPerClass}, floats({options.iouThreshold})};
  if (options.scoreThreshold) {
    inputs.emplace_back(floats({*options.scoreThreshold}));
  }
  return one("NonMaxSuppression", inputs, {{"center_point_box", options.centerPointBox}});
}

TensorId AiOnnx::resize(const TensorId& x, const ops::ResizeOptions& options) {
  const auto reals = [](const std::vector<double>& numbers) {
    return numbers.empty() ? OpOperand() : OpOperand(floats(numbers));
  };
  return one("Resize",
             {x,
              reals(options.roi),
              reals(options.sizes.empty() ? options.scales : std::vector<double>{}),
              options.sizes.empty() ? OpOperand() : OpOperand(options.sizes)},
             {{"mode", options.mode},
              {"coordinate_transformation_mode", options.coordinates},
              {"nearest_mode", options.nearest},
              {"cubic_coeff_a", options.cubicCoefficient},
              {"exclude_outside", options.excludeOutside},
              {"extrapolation_value", options.extrapolationValue}});
}

TensorId AiOnnx::roialign(const TensorId& x,
                          const TensorId& regions,
                          const TensorId& batchIndices,
                          const ops::RoiAlignOptions& options) {
  const std::string_view coordinates = options.halfPixel ? "half_pixel" : "output_half_pixel";
  return one("RoiAlign",
             {x, regions, batchIndices},
             {{"output_height", options.rows},
              {"output_width", options.columns},
              {"sampling_ratio", options.samplingRatio},
              {"spatial_scale", options.spatialScale},
              {"coordinate_transformation_mode", coordinates},
              {"mode", options.mode}});
}

TensorId AiOnnx::bernoulli(const TensorId& x, std::optional<DType> dtype) {
  return one("Bernoulli", {x}, withType(dtype));
}

TensorId AiOnnx::dropout(const TensorId& x, double ratio) {
  return b_.make("Dropout", [&] { return ops::dropout(b_.b_, b_.value(x), ratio); });
}

TensorId AiOnnx::multinomial(const TensorId& x, std::int64_t sampleSize, DType dtype) {
  return one("Multinomial", {x}, withType(dtype, {{"sample_size", sampleSize}}));
}

TensorId AiOnnx::randomnormal(const TensorType& type, const NormalOptions& options) {
  return one(
      "RandomNormal",
      {},
      withType(type.dtype,
               {{"shape", type.shape.dims()}, {"mean", options.mean}, {"scale", options.scale}}));
}

TensorId AiOnnx::randomnormallike(const TensorId& x,
                                  const NormalOptions& options,
                                  std::optional<DType> dtype) {
  return one(
      "RandomNormalLike", {x}, withType(dtype, {{"mean", options.mean}, {"scale", options.scale}}));
}

TensorId AiOnnx::randomuniform(const TensorType& type, const UniformOptions& options) {
  return one(
      "RandomUniform",
      {},
      withType(type.dtype,
               {{"shape", type.shape.dims()}, {"low", options.low}, {"high", options.high}}));
}

TensorId AiOnnx::randomuniformlike(const TensorId& x,
                                   const UniformOptions& options,
                                   std::optional<DType> dtype) {
  return one(
      "RandomUniformLike", {x}, withType(dtype, {{"low", options.low}, {"high", options.high}}));
}

}  // namespace sluice
