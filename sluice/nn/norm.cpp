#include "sluice/nn/norm.h"

#include "sluice/base/error.h"
#include "sluice/nn/block.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/parameter.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {
namespace {

/// Statistics of 16-bit floats are kept in f32.
DType statisticsType(DType dtype) {
  return dtype == DType::F64 ? DType::F64 : DType::F32;
}

void requireChannels(const std::string& module, const Tensor& x, std::int64_t channels) {
  const Shape& shape = x.shape();
  if (shape.rank() < 2 || shape.rank() > 5 || shape[1] != channels) {
    raise<InvalidArgument>("{}: expected an input [batch, {}, up to 3 spatial axes], got {}",
                           module,
                           channels,
                           x.type().str());
  }
}

void requireLastAxes(const std::string& module, const Tensor& x, const Shape& extents) {
  const std::vector<std::int64_t>& dims = x.shape().dims();
  const std::vector<std::int64_t>& last = extents.dims();
  if (dims.size() < last.size() || !std::equal(last.rbegin(), last.rend(), dims.rbegin())) {
    raise<InvalidArgument>("{}: expected an input whose last axes are {}, got {}",
                           module,
                           extents.str(),
                           x.type().str());
  }
}

Shape normShape(std::string_view module, std::string_view name, Extents extents) {
  if (extents.empty()) {
    raise<InvalidArgument>("{} '{}': no extents are given", module, name);
  }
  for (const std::int64_t extent : extents) {
    positive(extent, module, name, "an extent");
  }
  return Shape(std::move(extents));
}

}  // namespace

BatchNorm::BatchNorm(Module& parent,
                     std::string name,
                     std::int64_t channels,
                     BatchNormOptions options)
    : Layer(parent, std::move(name)),
      weight(addParameter("weight",
                          {options.dtype, normShape("BatchNorm", this->name(), {channels})},
                          init::ones())),
      bias(addParameter("bias", {options.dtype, Shape{channels}}, init::zeros())),
      runningMean(addBuffer(
          "running_mean", {statisticsType(options.dtype), Shape{channels}}, init::zeros())),
      runningVariance(
          addBuffer("running_var", {statisticsType(options.dtype), Shape{channels}}, init::ones())),
      numBatchesTracked(addBuffer("num_batches_tracked", {DType::I64, Shape{}}, init::zeros())),
      options_(options) {
  runningMean.keepType();
  runningVariance.keepType();
  if (!(options.momentum >= 0.0 && options.momentum <= 1.0)) {
    raise<InvalidArgument>(
        "BatchNorm '{}': the momentum is {}, expected one in [0, 1]", path(), options.momentum);
  }
}

Tensor BatchNorm::forward(const Tensor& x) {
  requireChannels(description(), x, weight.type().shape[0]);
  const Tensor gamma = weight;  // read in the order of the parameters
  const Tensor beta = bias;
  if (!tracesTraining()) {
    return batchNorm(x, gamma, beta, {runningMean, runningVariance}, options_.eps);
  }
  const std::int64_t count = x.shape().elements() / x.shape()[1];
  if (count < 2) {
    raise<InvalidArgument>("{}: training needs more than one value per channel, got {}",
                           description(),
                           x.type().str());
  }
  const BatchNormResult batch = batchNorm(x, gamma, beta, options_.eps);
  track(batch, count);
  return batch.y;
}

void BatchNorm::track(const BatchNormResult& batch, std::int64_t count) {
  const double momentum = options_.momentum;
  const auto n = static_cast<double>(count);
  Tracer& tracer = Tracer::current();
  const Autocast off(false);  // the averages have types of their own
  const DType type =
      tracer.precision().runningStatisticsAlwaysFloat ? batch.mean.dtype() : batch.y.dtype();
  const auto average = [&](const Parameter& running, const Tensor& newest, double share) {
    const Tensor kept = cast(running.use(), type) * (1.0 - momentum);
    const Tensor sum = kept + cast(newest, type) * share;
    tracer.assign(running, cast(sum, running.type().dtype));
  };
  average(runningMean, batch.mean, momentum);
  average(runningVariance, batch.variance, momentum * n / (n - 1.0));
  tracer.assign(numBatchesTracked, numBatchesTracked.use() + 1.0);
}

LayerNorm::LayerNorm(Module& parent, std::string name, Extents extents, NormLayerOptions options)
    : Layer(parent, std::move(name)),
      weight(addParameter("weight",
                          {options.dtype, normShape("LayerNorm", this->name(), std::move(extents))},
                          init::ones())),
      bias(addParameter("bias", weight.type(), init::zeros())),
      eps_(options.eps) {}

Tensor LayerNorm::forward(const Tensor& x) {
  requireLastAxes(description(), x, weight.type().shape);
  const Tensor gamma = weight;  // read in the order of the parameters
  return layerNorm(x, gamma, bias, eps_);
}

RmsNorm::RmsNorm(Module& parent, std::string name, std::int64_t extent, NormLayerOptions options)
    : Layer(parent, std::move(name)),
      weight(addParameter(
          "weight", {options.dtype, normShape("RmsNorm", this->name(), {extent})}, init::ones())),
      eps_(options.eps) {}

Tensor RmsNorm::forward(const Tensor& x) {
  requireLastAxes(description(), x, weight.type().shape);
  return rmsNorm(x, weight, eps_);
}

GroupNorm::GroupNorm(Module& parent,
                     std::string name,
                     std::int64_t groups,
                     std::int64_t channels,
                     NormLayerOptions options)
    : Layer(parent, std::move(name)),
      weight(addParameter("weight",
                          {options.dtype, normShape("GroupNorm", this->name(), {channels})},
                          init::ones())),
      bias(addParameter("bias", weight.type(), init::zeros())),
      groups_(positive(groups, "GroupNorm", path(), "the number of groups")),
      eps_(options.eps) {
  if (channels % groups != 0) {
    raise<InvalidArgument>(
        "GroupNorm '{}': {} groups do not divide {} channels", path(), groups, channels);
  }
}

Tensor GroupNorm::forward(const Tensor& x) {
  requireChannels(description(), x, weight.type().shape[0]);
  const Tensor gamma = weight;  // read in the order of the parameters
  return groupNorm(x, gamma, bias, groups_, eps_);
}

InstanceNorm::InstanceNorm(Module& parent,
                           std::string name,
                           std::int64_t channels,
                           InstanceNormOptions options)
    : Layer(parent, std::move(name)),
      channels_(positive(channels, "InstanceNorm", this->name(), "the number of channels")),
      eps_(options.eps) {
  if (options.affine) {
    const TensorType type{options.dtype, Shape{channels}};
    weight = &addParameter("weight", type, init::ones());
    bias = &addParameter("bias", type, init::zeros());
  }
}

Tensor InstanceNorm::forward(const Tensor& x) {
  requireChannels(description(), x, channels_);
  if (weight == nullptr) {
    return instanceNorm(x, {}, {}, eps_);
  }
  const Tensor gamma = *weight;  // read in the order of the parameters
  return instanceNorm(x, gamma, *bias, eps_);
}

}  // namespace sluice::nn
