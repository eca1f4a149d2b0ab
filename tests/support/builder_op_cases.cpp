// Cases of AiOnnx: element-wise ops, products, pooling, normalization and losses.
#include "tests/support/builder_op_cases.h"

namespace sluice::opcases {
namespace {

Case unary(std::string_view onnx, TensorId (AiOnnx::*op)(const TensorId&)) {
  return {onnx, [op](Fixture& f) { return Ids{(f.o.*op)(f.x)}; }, {kSame}};
}
Case binary(std::string_view onnx, TensorId (AiOnnx::*op)(const TensorId&, const TensorId&)) {
  return {onnx, [op](Fixture& f) { return Ids{(f.o.*op)(f.x, f.x)}; }, {kSame}};
}
Case compared(std::string_view onnx, TensorId (AiOnnx::*op)(const TensorId&, const TensorId&)) {
  return {onnx, [op](Fixture& f) { return Ids{(f.o.*op)(f.x, f.x)}; }, {kTruth}};
}
Case logical(std::string_view onnx, TensorId (AiOnnx::*op)(const TensorId&, const TensorId&)) {
  return {onnx, [op](Fixture& f) { return Ids{(f.o.*op)(f.flags, f.flags)}; }, {kTruth}};
}
Case variadic(std::string_view onnx, TensorId (AiOnnx::*op)(const Ids&)) {
  return {onnx, [op](Fixture& f) { return Ids{(f.o.*op)({f.x, f.x, f.x})}; }, {kSame}};
}

}  // namespace

std::vector<Case> unaryCases() {
  std::vector<Case> cases = {
      unary("Abs", &AiOnnx::abs),
      unary("Exp", &AiOnnx::exp),
      unary("Identity", &AiOnnx::identity),
      unary("Log", &AiOnnx::log),
      unary("Neg", &AiOnnx::neg),
      unary("Relu", &AiOnnx::relu),
      unary("Sigmoid", &AiOnnx::sigmoid),
      unary("Sqrt", &AiOnnx::sqrt),
      unary("Tanh", &AiOnnx::tanh),
  };
#define SLUICE_CASE(method, onnx) cases.push_back(unary(onnx, &AiOnnx::method))
  SLUICE_BUILDER_ELEMENTWISE(SLUICE_CASE);
#undef SLUICE_CASE
  return cases;
}

std::vector<Case> binaryCases() {
  return {
      binary("Add", &AiOnnx::add),
      binary("Div", &AiOnnx::div),
      binary("Mul", &AiOnnx::mul),
      binary("PRelu", &AiOnnx::prelu),
      binary("Pow", &AiOnnx::pow),
      binary("Sub", &AiOnnx::sub),
      compared("Equal", &AiOnnx::equal),
      compared("Greater", &AiOnnx::greater),
      compared("GreaterOrEqual", &AiOnnx::greaterorequal),
      compared("Less", &AiOnnx::less),
      compared("LessOrEqual", &AiOnnx::lessorequal),
      logical("And", &AiOnnx::logical_and),
      logical("Or", &AiOnnx::logical_or),
      logical("Xor", &AiOnnx::logical_xor),
      variadic("Max", &AiOnnx::max),
      variadic("Mean", &AiOnnx::mean),
      variadic("Min", &AiOnnx::min),
      variadic("Sum", &AiOnnx::sum),
      op(
          "Not", [](Fixture& f) { return f.o.logical_not(f.flags); }, kTruth),
      op(
          "IsInf", [](Fixture& f) { return f.o.isinf(f.x); }, kTruth),
      op(
          "IsNaN", [](Fixture& f) { return f.o.isnan(f.x); }, kTruth),
      op(
          "Cast", [](Fixture& f) { return f.o.cast(f.x, DType::I64); }, i64({2, 3})),
      op("CastLike",
         [](Fixture& f) { return f.o.castlike(f.x, f.whole); },
         {DType::I32, Shape{2, 3}}),
      op(
          "Clip", [](Fixture& f) { return f.o.clip(f.x, 0, 1); }, kSame),
      op(
          "Celu", [](Fixture& f) { return f.o.celu(f.x); }, kSame),
      op(
          "Elu", [](Fixture& f) { return f.o.elu(f.x); }, kSame),
      op(
          "HardSigmoid", [](Fixture& f) { return f.o.hardsigmoid(f.x); }, kSame),
      op(
          "LeakyRelu", [](Fixture& f) { return f.o.leakyrelu(f.x); }, kSame),
      op(
          "Selu", [](Fixture& f) { return f.o.selu(f.x, 1.7, 1.1); }, kSame),
      op(
          "Shrink", [](Fixture& f) { return f.o.shrink(f.x); }, kSame),
      op(
          "ThresholdedRelu", [](Fixture& f) { return f.o.thresholdedrelu(f.x); }, kSame),
      op("BitShift",
         [](Fixture& f) { return f.o.bitshift(f.bytes, f.bytes, "LEFT"); },
         {DType::U8, Shape{2, 3}}),
      op(
          "Mod", [](Fixture& f) { return f.o.mod(f.x, f.x, true); }, kSame),
      op(
          "Where", [](Fixture& f) { return f.o.where(f.flags, f.x, f.x); }, kSame),
  };
}

std::vector<Case> linearCases() {
  const TensorType u8{DType::U8, Shape{2, 2}};
  return {
      op(
          "Conv",
          [](Fixture& f) {
            return f.o.conv(f.image, f.ones({3, 2, 3, 3}), {}, f.ones({3}));
          },
          f32({1, 3, 2, 2})),
      op("ConvInteger",
         [](Fixture& f) {
           return f.o.convinteger(f.u8({1, 1, 3, 3}, {1}),
                                  f.u8({1, 1, 2, 2}, {1}),
                                  {.x = f.u8({}, {1})},
                                  {.pads = {1, 1, 1, 1}});
         },
         {DType::I32, Shape{1, 1, 4, 4}}),
      op(
          "ConvTranspose",
          [](Fixture& f) {
            return f.o.convtranspose(
                f.image, f.ones({2, 3, 2, 2}), {.strides = {2, 2}}, f.ones({3}));
          },
          f32({1, 3, 8, 8})),
      op(
          "DequantizeLinear",
          [](Fixture& f) {
            return f.o.dequantizelinear({f.bytes, f.f32({}, {0.5}), f.u8({}, {3})});
          },
          kSame),
      op(
          "Det", [](Fixture& f) { return f.o.det(f.square); }, f32({})),
      {"DynamicQuantizeLinear",
       [](Fixture& f) { return f.o.dynamicquantizelinear(f.x); },
       {{DType::U8, Shape{2, 3}}, f32({}), {DType::U8, Shape{}}}},
      op(
          "Einsum",
          [](Fixture& f) {
            return f.o.einsum("ij,kj->ik", {f.x, f.x});
          },
          f32({2, 2})),
      op(
          "Gemm", [](Fixture& f) { return f.o.gemm(f.x, f.x, {}, {.transB = true}); }, f32({2, 2})),
      op(
          "MatMul", [](Fixture& f) { return f.o.matmul(f.x, f.square); }, kSame),
      op("MatMulInteger",
         [](Fixture& f) {
           return f.o.matmulinteger(f.bytes, f.u8({3, 2}, {1}));
         },
         {DType::I32, Shape{2, 2}}),
      op("QLinearConv",
         [](Fixture& f) {
           const TensorId scale = f.f32({}, {0.5});
           const TensorId zero = f.u8({}, {1});
           return f.o.qlinearconv({f.u8({1, 1, 3, 3}, {1}), scale, zero},
                                  {f.u8({1, 1, 2, 2}, {1}), scale, zero},
                                  {scale, zero});
         },
         {DType::U8, Shape{1, 1, 2, 2}}),
      op(
          "QLinearMatMul",
          [](Fixture& f) {
            const TensorId scale = f.f32({}, {0.5});
            const TensorId zero = f.u8({}, {1});
            return f.o.qlinearmatmul(
                {f.bytes, scale, zero}, {f.u8({3, 2}, {1}), scale, zero}, {scale, zero});
          },
          u8),
      op("QuantizeLinear",
         [](Fixture& f) {
           return f.o.quantizelinear(f.x, {f.f32({}, {0.5}), f.u8({}, {3})});
         },
         {DType::U8, Shape{2, 3}}),
  };
}

std::vector<Case> poolCases() {
  return {
      op(
          "AveragePool",
          [](Fixture& f) {
            return f.o.averagepool(f.image, {.kernel = {2, 2}});
          },
          f32({1, 2, 3, 3})),
      op(
          "GlobalAveragePool",
          [](Fixture& f) { return f.o.globalaveragepool(f.image); },
          f32({1, 2, 1, 1})),
      op(
          "GlobalLpPool",
          [](Fixture& f) { return f.o.globallppool(f.image, 3); },
          f32({1, 2, 1, 1})),
      op(
          "GlobalMaxPool",
          [](Fixture& f) { return f.o.globalmaxpool(f.image); },
          f32({1, 2, 1, 1})),
      op(
          "LpPool",
          [](Fixture& f) {
            return f.o.lppool(f.image, {.kernel = {2, 2}, .strides = {2, 2}});
          },
          f32({1, 2, 2, 2})),
      op(
          "MaxPool",
          [](Fixture& f) {
            return f.o.maxpool(f.image, {.kernel = {2, 2}});
          },
          f32({1, 2, 3, 3})),
      {"MaxPool",
       [](Fixture& f) {
         return f.o.maxpool(f.image, {.kernel = {2, 2}, .strides = {2, 2}}, 2);
       },
       {f32({1, 2, 2, 2}), i64({1, 2, 2, 2})}},
      op(
          "MaxUnpool",
          [](Fixture& f) {
            const Ids pooled = f.o.maxpool(f.image, {.kernel = {2, 2}, .strides = {2, 2}}, 2);
            return f.o.maxunpool(
                pooled[0], pooled[1], {.kernel = {2, 2}, .strides = {2, 2}}, {1, 2, 4, 5});
          },
          f32({1, 2, 4, 5})),
  };
}

std::vector<Case> normalizationCases() {
  return {
      op(
          "BatchNormalization",
          [](Fixture& f) {
            const TensorId two = f.ones({2});
            return f.o.batchnormalization(f.image, {two, two, two, two});
          },
          f32({1, 2, 4, 4})),
      op(
          "Hardmax", [](Fixture& f) { return f.o.hardmax(f.x); }, kSame),
      op(
          "InstanceNormalization",
          [](Fixture& f) { return f.o.instancenormalization(f.image, f.ones({2}), f.ones({2})); },
          f32({1, 2, 4, 4})),
      op(
          "LayerNormalization",
          [](Fixture& f) { return f.o.layernormalization(f.x, f.ones({3})); },
          kSame),
      op(
          "LogSoftmax", [](Fixture& f) { return f.o.logsoftmax(f.x); }, kSame),
      op(
          "LpNormalization", [](Fixture& f) { return f.o.lpnormalization(f.x, 0, 1); }, kSame),
      op(
          "LRN", [](Fixture& f) { return f.o.lrn(f.image, 2); }, f32({1, 2, 4, 4})),
      op(
          "MeanVarianceNormalization",
          [](Fixture& f) { return f.o.meanvariancenormalization(f.image); },
          f32({1, 2, 4, 4})),
      op(
          "NegativeLogLikelihoodLoss",
          [](Fixture& f) {
            return f.o.negativeloglikelihoodloss(
                f.x, f.i64({2}, {0, 2}), {.ignoreIndex = 2, .weight = f.ones({3})});
          },
          f32({})),
      op(
          "Softmax", [](Fixture& f) { return f.o.softmax(f.x); }, kSame),
      op(
          "SoftmaxCrossEntropyLoss",
          [](Fixture& f) {
            return f.o.softmaxcrossentropyloss(
                f.x, f.i64({2}, {0, 2}), {.reduction = ops::Reduction::None});
          },
          f32({2})),
  };
}

}  // namespace sluice::opcases
