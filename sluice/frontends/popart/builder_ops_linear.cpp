// AiOnnx: products and convolutions, of real and of quantized numbers.
#include "sluice/base/error.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/op_attrs.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/window_ops.h"

namespace sluice {
namespace {

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

std::vector<ir::NamedAttr> convAttrs(const ops::ConvOptions& options) {
  return given({{"strides", options.strides},
                {"pads", options.pads},
                {"dilations", options.dilations},
                {"group", options.groups}});
}

}  // namespace

TensorId AiOnnx::conv(const TensorId& x,
                      const TensorId& w,
                      const ops::ConvOptions& options,
                      const TensorId& bias) {
  return b_.make("Conv", [&] {
    const ir::Value y = ops::conv(b_.b_, b_.value(x), b_.value(w), options);
    return bias.empty() ? y : ops::add(b_.b_, y, channelBias(b_.b_, b_.value(bias), y));
  });
}

TensorId AiOnnx::convinteger(const TensorId& x,
                             const TensorId& w,
                             const ZeroPoints& zeroPoints,
                             const ops::ConvOptions& options) {
  return one("ConvInteger", {x, w, zeroPoints.x, zeroPoints.w}, convAttrs(options));
}

TensorId AiOnnx::convtranspose(const TensorId& x,
                               const TensorId& w,
                               const ConvTransposeOptions& options,
                               const TensorId& bias) {
  return one("ConvTranspose",
             {x, w, bias},
             given({{"strides", options.strides},
                    {"pads", options.pads},
                    {"dilations", options.dilations},
                    {"group", options.groups},
                    {"output_padding", options.outputPadding},
                    {"output_shape", options.outputShape}}));
}

TensorId AiOnnx::dequantizelinear(const QuantizedTensor& x, std::int64_t axis) {
  return one("DequantizeLinear", {x.tensor, x.scale, x.zeroPoint}, {{"axis", axis}});
}

AiOnnx::Ids AiOnnx::dynamicquantizelinear(const TensorId& x) {
  return node("DynamicQuantizeLinear", {x}, {}, 3);
}

TensorId AiOnnx::einsum(std::string_view equation, const Ids& tensors) {
  return node("Einsum", tensors, {{"equation", equation}})[0];
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

TensorId AiOnnx::matmul(const TensorId& x, const TensorId& y) {
  return b_.make("MatMul", [&] { return ops::matmul(b_.b_, b_.value(x), b_.value(y)); });
}

TensorId AiOnnx::matmulinteger(const TensorId& x, const TensorId& y, const ZeroPoints& zeroPoints) {
  return one("MatMulInteger", {x, y, zeroPoints.x, zeroPoints.w});
}

TensorId AiOnnx::qlinearconv(const QuantizedTensor& x,
                             const QuantizedTensor& w,
                             const Quantization& result,
                             const ops::ConvOptions& options,
                             const TensorId& bias) {
  return one("QLinearConv",
             {x.tensor,
              x.scale,
              x.zeroPoint,
              w.tensor,
              w.scale,
              w.zeroPoint,
              result.scale,
              result.zeroPoint,
              bias},
             convAttrs(options));
}

TensorId AiOnnx::qlinearmatmul(const QuantizedTensor& x,
                               const QuantizedTensor& y,
                               const Quantization& result) {
  return one("QLinearMatMul",
             {x.tensor,
              x.scale,
              x.zeroPoint,
              y.tensor,
              y.scale,
              y.zeroPoint,
              result.scale,
              result.zeroPoint});
}

TensorId AiOnnx::quantizelinear(const TensorId& x, const Quantization& result, std::int64_t axis) {
  return one("QuantizeLinear", {x, result.scale, result.zeroPoint}, {{"axis", axis}});
}

}  // namespace sluice
