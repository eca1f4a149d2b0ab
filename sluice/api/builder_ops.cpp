// The op sets of Builder: each function is one or a few ops of sluice/ops with ONNX's conventions.
#include <algorithm>

#include "sluice/api/builder.h"
#include "sluice/base/error.h"
#include "sluice/onnx/append.h"

namespace sluice {
namespace {

/// ONNX's target shape made explicit: 0 keeps an extent, one -1 takes what remains.
Shape reshapeTarget(const Shape& from, std::vector<std::int64_t> dims) {
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && static_cast<std::int64_t>(i) < from.rank()) {
      dims[i] = from[static_cast<std::int64_t>(i)];
    }
    if (dims[i] != -1) {
      known *= dims[i];
    } else if (open == nullptr) {
      open = &dims[i];
    } else {
      raise<InvalidArgument>("reshape: only one extent of the target may be -1");
    }
  }
  if (open != nullptr) {
    if (known <= 0 || from.elements() % known != 0) {
      raise<InvalidArgument>(
          "reshape: {} has no whole number of parts of {} elements", from.str(), known);
    }
    *open = from.elements() / known;
  }
  return Shape(std::move(dims));
}

/// A bias of one number per channel, shaped to be added to x.
ir::Value channelBias(ir::GraphBuilder& b, ir::Value bias, ir::Value x) {
  const Shape& shape = b.shape(x);
  if (b.shape(bias) != Shape{shape[1]}) {
    raise<InvalidArgument>("bias: expected shape {} for {} channels, got {}",
                           Shape{shape[1]}.str(),
                           shape[1],
                           b.shape(bias).str());
  }
  std::vector<std::int64_t> dims(static_cast<std::size_t>(shape.rank()), 1);
  dims[1] = shape[1];
  return ops::reshape(b, bias, Shape(std::move(dims)));
}

}  // namespace

std::vector<TensorId> AiOnnx::node(std::string_view op,
                                   const std::vector<TensorId>& inputs,
                                   std::vector<ir::NamedAttr> attrs,
                                   std::size_t outputs) {
  return b_.makeMany(op, [&] {
    onnx::NodeCall call{.op = op, .attrs = std::move(attrs), .outputs = outputs};
    for (const TensorId& id : inputs) {
      call.inputs.push_back(id.empty() ? ir::Value() : b_.value(id));
    }
    return onnx::appendNode(b_.b_, call);
  });
}

TensorId AiOnnx::abs(const TensorId& x) {
  return b_.make("Abs", [&] { return ops::abs(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::exp(const TensorId& x) {
  return b_.make("Exp", [&] { return ops::exp(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::globalaveragepool(const TensorId& x) {
  return b_.make("GlobalAveragePool", [&] { return ops::globalAvgPool(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::identity(const TensorId& x) {
  return b_.make("Identity", [&] { return ops::identity(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::log(const TensorId& x) {
  return b_.make("Log", [&] { return ops::log(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::neg(const TensorId& x) {
  return b_.make("Neg", [&] { return ops::neg(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::relu(const TensorId& x) {
  return b_.make("Relu", [&] { return ops::relu(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::sigmoid(const TensorId& x) {
  return b_.make("Sigmoid", [&] { return ops::sigmoid(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::sqrt(const TensorId& x) {
  return b_.make("Sqrt", [&] { return ops::sqrt(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::tanh(const TensorId& x) {
  return b_.make("Tanh", [&] { return ops::tanh(b_.b_, b_.value(x)); });
}

TensorId AiOnnx::add(const TensorId& x, const TensorId& y) {
  return b_.make("Add", [&] { return ops::add(b_.b_, b_.value(x), b_.value(y)); });
}

TensorId AiOnnx::div(const TensorId& x, const TensorId& y) {
  return b_.make("Div", [&] { return ops::div(b_.b_, b_.value(x), b_.value(y)); });
}

TensorId AiOnnx::matmul(const TensorId& x, const TensorId& y) {
  return b_.make("MatMul", [&] { return ops::matmul(b_.b_, b_.value(x), b_.value(y)); });
}

TensorId AiOnnx::mul(const TensorId& x, const TensorId& y) {
  return b_.make("Mul", [&] { return ops::mul(b_.b_, b_.value(x), b_.value(y)); });
}

TensorId AiOnnx::pow(const TensorId& x, const TensorId& y) {
  return b_.make("Pow", [&] { return ops::pow(b_.b_, b_.value(x), b_.value(y)); });
}

TensorId AiOnnx::sub(const TensorId& x, const TensorId& y) {
  return b_.make("Sub", [&] { return ops::sub(b_.b_, b_.value(x), b_.value(y)); });
}

TensorId AiOnnx::reducemax(const TensorId& x, const Ints& axes, bool keepdims) {
  return b_.make("ReduceMax", [&] { return ops::reduceMax(b_.b_, b_.value(x), axes, keepdims); });
}

TensorId AiOnnx::reducemean(const TensorId& x, const Ints& axes, bool keepdims) {
  return b_.make("ReduceMean", [&] { return ops::reduceMean(b_.b_, b_.value(x), axes, keepdims); });
}

TensorId AiOnnx::reducesum(const TensorId& x, const Ints& axes, bool keepdims) {
  return b_.make("ReduceSum", [&] { return ops::reduceSum(b_.b_, b_.value(x), axes, keepdims); });
}

TensorId AiOnnx::averagepool(const TensorId& x, const ops::PoolOptions& options) {
  return b_.make("AveragePool", [&] { return ops::avgPool(b_.b_, b_.value(x), options); });
}

TensorId AiOnnx::maxpool(const TensorId& x, const ops::PoolOptions& options) {
  return b_.make("MaxPool", [&] { return ops::maxPool(b_.b_, b_.value(x), options); });
}

TensorId AiOnnx::batchnormalization(const TensorId& x,
                                    const BatchNormTensors& tensors,
                                    double epsilon) {
  return b_.make("BatchNormalization", [&] {
    return ops::batchNormInference(b_.b_,
                                   b_.value(x),
                                   {.gamma = b_.value(tensors.scale),
                                    .beta = b_.value(tensors.bias),
                                    .mean = b_.value(tensors.mean),
                                    .variance = b_.value(tensors.variance)},
                                   epsilon);
  });
}

TensorId AiOnnx::cast(const TensorId& x, DType to) {
  return b_.make("Cast", [&] { return ops::cast(b_.b_, b_.value(x), to); });
}

TensorId AiOnnx::clip(const TensorId& x, double min, double max) {
  return b_.make("Clip", [&] { return ops::clamp(b_.b_, b_.value(x), min, max); });
}

TensorId AiOnnx::concat(const std::vector<TensorId>& parts, std::int64_t axis) {
  return b_.make("Concat", [&] {
    std::vector<ir::Value> values;
    values.reserve(parts.size());
    for (const TensorId& part : parts) {
      values.push_back(b_.value(part));
    }
    return ops::concat(b_.b_, std::move(values), axis);
  });
}

TensorId AiOnnx::conv(const TensorId& x,
                      const TensorId& w,
                      const ops::ConvOptions& options,
                      const TensorId& bias) {
  return b_.make("Conv", [&] {
    const ir::Value y = ops::conv(b_.b_, b_.value(x), b_.value(w), options);
    return bias.empty() ? y : ops::add(b_.b_, y, channelBias(b_.b_, b_.value(bias), y));
  });
}

TensorId AiOnnx::dropout(const TensorId& x, double ratio) {
  return b_.make("Dropout", [&] { return ops::dropout(b_.b_, b_.value(x), ratio); });
}

TensorId AiOnnx::flatten(const TensorId& x, std::int64_t axis) {
  return b_.make("Flatten", [&] {
    const Shape& shape = b_.getTensorShape(x);
    const std::int64_t first = axis == shape.rank() ? axis : normalizeAxis(axis, shape.rank());
    std::int64_t rows = 1;
    std::int64_t columns = 1;
    for (std::int64_t i = 0; i < shape.rank(); ++i) {
      (i < first ? rows : columns) *= shape[i];
    }
    return ops::reshape(b_.b_, b_.value(x), Shape{rows, columns});
  });
}

TensorId AiOnnx::gather(const TensorId& x, const TensorId& indices, std::int64_t axis) {
  return b_.make("Gather",
                 [&] { return ops::gather(b_.b_, b_.value(x), b_.value(indices), axis); });
}

TensorId AiOnnx::gemm(const TensorId& x,
                      const TensorId& y,
                      const TensorId& c,
                      const GemmOptions& options) {
  return b_.make("Gemm", [&] {
    const auto scaled = [&](ir::Value value, float factor) {
      return factor == 1.0F ? value
                            : ops::mul(b_.b_, value, b_.b_.scalar(b_.b_.dtype(value), factor));
    };
    if (b_.getTensorShape(x).rank() != 2 || b_.getTensorShape(y).rank() != 2) {
      raise<InvalidArgument>("gemm: expected two matrices, got {} and {}",
                             b_.getTensorShape(x).str(),
                             b_.getTensorShape(y).str());
    }
    const ir::Value product =
        scaled(ops::matmul(b_.b_, b_.value(x), b_.value(y), {options.transA, options.transB}),
               options.alpha);
    return c.empty() ? product : ops::add(b_.b_, product, scaled(b_.value(c), options.beta));
  });
}

TensorId AiOnnx::logsoftmax(const TensorId& x, std::int64_t axis) {
  return b_.make("LogSoftmax", [&] { return ops::logSoftmax(b_.b_, b_.value(x), axis); });
}

TensorId AiOnnx::softmax(const TensorId& x, std::int64_t axis) {
  return b_.make("Softmax", [&] { return ops::softmax(b_.b_, b_.value(x), axis); });
}

TensorId AiOnnx::reshape(const TensorId& x, const Ints& shape) {
  return b_.make("Reshape", [&] {
    return ops::reshape(b_.b_, b_.value(x), reshapeTarget(b_.getTensorShape(x), shape));
  });
}

TensorId AiOnnx::slice(const TensorId& x, const std::vector<SliceRange>& ranges) {
  return b_.make("Slice", [&] {
    const Shape& shape = b_.getTensorShape(x);
    Ints starts(static_cast<std::size_t>(shape.rank()), 0);
    Ints ends = shape.dims();
    Ints steps(starts.size(), 1);
    for (const SliceRange& range : ranges) {
      const auto axis = static_cast<std::size_t>(normalizeAxis(range.axis, shape.rank()));
      starts[axis] = range.start;
      ends[axis] = range.end;
      steps[axis] = range.step;
    }
    return ops::slice(b_.b_, b_.value(x), starts, ends, steps);
  });
}

std::vector<TensorId> AiOnnx::split(const TensorId& x, const Ints& sizes, std::int64_t axis) {
  return b_.makeMany("Split", [&] { return ops::split(b_.b_, b_.value(x), axis, sizes); });
}

TensorId AiOnnx::squeeze(const TensorId& x, const Ints& axes) {
  return b_.make("Squeeze", [&] { return ops::squeeze(b_.b_, b_.value(x), axes); });
}

TensorId AiOnnx::transpose(const TensorId& x, const Ints& perm) {
  return b_.make("Transpose", [&] { return ops::transpose(b_.b_, b_.value(x), perm); });
}

TensorId AiOnnx::unsqueeze(const TensorId& x, const Ints& axes) {
  return b_.make("Unsqueeze", [&] { return ops::unsqueeze(b_.b_, b_.value(x), axes); });
}

TensorId AiOnnx::where(const TensorId& condition, const TensorId& x, const TensorId& y) {
  return b_.make("Where",
                 [&] { return ops::where(b_.b_, b_.value(condition), b_.value(x), b_.value(y)); });
}

TensorId AiGraphcore::detach(const TensorId& x) {
  return b_.make("Detach", [&] { return ops::detach(b_.b_, b_.value(x)); });
}

TensorId AiGraphcore::gelu(const TensorId& x) {
  return b_.make("Gelu", [&] { return ops::gelu(b_.b_, b_.value(x)); });
}

TensorId AiGraphcore::nop(const TensorId& x) {
  return b_.make("Nop", [&] { return ops::nop(b_.b_, b_.value(x)); });
}

TensorId AiGraphcore::groupnormalization(const TensorId& x,
                                         const TensorId& scale,
                                         const TensorId& bias,
                                         std::int64_t groups,
                                         double epsilon) {
  return b_.make("GroupNormalization", [&] {
    return ops::groupNorm(b_.b_, b_.value(x), b_.value(scale), b_.value(bias), groups, epsilon);
  });
}

TensorId AiGraphcore::identityloss(const TensorId& x, ops::Reduction reduction) {
  return b_.make("IdentityLoss", [&] { return ops::identityLoss(b_.b_, b_.value(x), reduction); });
}

TensorId AiGraphcore::l1loss(const TensorId& x, double lambda, ops::Reduction reduction) {
  return b_.make("L1", [&] {
    const ir::Value magnitude = ops::abs(b_.b_, b_.value(x));
    const ir::Value loss = ops::identityLoss(b_.b_, magnitude, reduction);
    return ops::mul(b_.b_, loss, b_.b_.scalar(b_.b_.dtype(loss), lambda));
  });
}

TensorId AiGraphcore::nllloss(const TensorId& probabilities,
                              const TensorId& labels,
                              const NllLossOptions& options) {
  return b_.make("Nll", [&] {
    const ir::Value given = b_.value(probabilities);
    const ir::Value logs = options.inputIsLogProbability ? given : ops::log(b_.b_, given);
    return ops::nllLoss(b_.b_, logs, b_.value(labels), {options.reduction, options.ignoreIndex});
  });
}

}  // namespace sluice
