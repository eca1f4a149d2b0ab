// Each op of the Builder's sets once, on small tensors. Names are ONNX's: the lists are compared
// with what the importer knows.
#include "sluice/api/builder_ops.h"

#include <cmath>
#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/builder.h"
#include "sluice/base/error.h"
#include "sluice/ir/verify.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/op_list.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::HasSubstr;
using Values = std::vector<double>;
using Ints = std::vector<std::int64_t>;

/// Tensors that most ops take, and others on demand.
struct Fixture {
  Builder b;
  AiOnnx o{b};
  AiGraphcore g{b};
  TensorId x = b.addInputTensor({DType::F32, Shape{2, 3}}, "x");
  TensorId square = b.addInputTensor({DType::F32, Shape{3, 3}}, "square");
  TensorId image = b.addInputTensor({DType::F32, Shape{1, 2, 4, 4}}, "image");
  TensorId sequence = b.addInputTensor({DType::F32, Shape{5, 2, 3}}, "sequence");
  TensorId whole = b.addInputTensor({DType::I32, Shape{2, 3}}, "whole");
  TensorId bytes = b.addInputTensor({DType::U8, Shape{2, 3}}, "bytes");
  TensorId flags = b.addInputTensor({DType::Bool, Shape{2, 3}}, "flags");

  TensorId f32(Shape shape, const Values& values) {
    return b.addConstant(tensor(DType::F32, std::move(shape), values));
  }
  TensorId i64(Shape shape, const Values& values) {
    return b.addConstant(tensor(DType::I64, std::move(shape), values));
  }
  TensorId u8(Shape shape, const Values& values) {
    return b.addConstant(tensor(DType::U8, std::move(shape), values));
  }
  TensorId ones(Shape shape) { return b.addConstant(HostTensor::full({DType::F32, shape}, 1.0)); }
  TensorId flag(const Values& values) {
    return b.addConstant(tensor(DType::Bool, Shape{std::ssize(values)}, values));
  }
  static HostTensor tensor(DType dtype, Shape shape, const Values& values) {
    HostTensor result(dtype, std::move(shape));
    for (std::size_t i = 0; i < values.size(); ++i) {
      result.set(static_cast<std::int64_t>(i), values[i]);
    }
    return result;
  }
};

struct Case {
  std::string_view onnx;  ///< the op's name in the standard
  std::function<std::vector<TensorId>(Fixture&)> make;
  std::vector<TensorType> types;
};

using Ids = std::vector<TensorId>;

const TensorType kSame{DType::F32, Shape{2, 3}};
const TensorType kTruth{DType::Bool, Shape{2, 3}};

TensorType f32(Shape shape) {
  return {DType::F32, std::move(shape)};
}
TensorType i64(Shape shape) {
  return {DType::I64, std::move(shape)};
}

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
Case reduced(std::string_view onnx, TensorId (AiOnnx::*op)(const TensorId&, const Ints&, bool)) {
  return {onnx, [op](Fixture& f) { return Ids{(f.o.*op)(f.x, {1}, true)}; }, {f32({2, 1})}};
}
/// One result of any op.
Case op(std::string_view onnx, TensorId (*make)(Fixture&), TensorType type) {
  return {onnx, [make](Fixture& f) { return Ids{make(f)}; }, {std::move(type)}};
}

std::vector<Case> elementwiseCases() {
  return {
      unary("Abs", &AiOnnx::abs),
      unary("Acos", &AiOnnx::acos),
      unary("Acosh", &AiOnnx::acosh),
      unary("Asin", &AiOnnx::asin),
      unary("Asinh", &AiOnnx::asinh),
      unary("Atan", &AiOnnx::atan),
      unary("Atanh", &AiOnnx::atanh),
      unary("Ceil", &AiOnnx::ceil),
      unary("Cos", &AiOnnx::cos),
      unary("Cosh", &AiOnnx::cosh),
      unary("Erf", &AiOnnx::erf),
      unary("Exp", &AiOnnx::exp),
      unary("Floor", &AiOnnx::floor),
      unary("HardSwish", &AiOnnx::hardswish),
      unary("Identity", &AiOnnx::identity),
      unary("Log", &AiOnnx::log),
      unary("Neg", &AiOnnx::neg),
      unary("Reciprocal", &AiOnnx::reciprocal),
      unary("Relu", &AiOnnx::relu),
      unary("Round", &AiOnnx::round),
      unary("Selu", &AiOnnx::selu),
      unary("Sigmoid", &AiOnnx::sigmoid),
      unary("Sign", &AiOnnx::sign),
      unary("Sin", &AiOnnx::sin),
      unary("Sinh", &AiOnnx::sinh),
      unary("Softplus", &AiOnnx::softplus),
      unary("Softsign", &AiOnnx::softsign),
      unary("Sqrt", &AiOnnx::sqrt),
      unary("Tan", &AiOnnx::tan),
      unary("Tanh", &AiOnnx::tanh),
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

std::vector<Case> nnCases() {
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

std::vector<Case> reductionAndIndexingCases() {
  return {
      reduced("ReduceL1", &AiOnnx::reducel1),
      reduced("ReduceL2", &AiOnnx::reducel2),
      reduced("ReduceLogSum", &AiOnnx::reducelogsum),
      reduced("ReduceLogSumExp", &AiOnnx::reducelogsumexp),
      reduced("ReduceMax", &AiOnnx::reducemax),
      reduced("ReduceMean", &AiOnnx::reducemean),
      reduced("ReduceMin", &AiOnnx::reducemin),
      reduced("ReduceProd", &AiOnnx::reduceprod),
      reduced("ReduceSum", &AiOnnx::reducesum),
      reduced("ReduceSumSquare", &AiOnnx::reducesumsquare),
      op(
          "ArgMax", [](Fixture& f) { return f.o.argmax(f.x, {.axis = 1}); }, i64({2, 1})),
      op(
          "ArgMin", [](Fixture& f) { return f.o.argmin(f.x, {.keepdims = false}); }, i64({3})),
      op(
          "CumSum", [](Fixture& f) { return f.o.cumsum(f.x, 1); }, kSame),
      op(
          "Compress",
          [](Fixture& f) {
            return f.o.compress(f.x, f.flag({1, 0, 1}), 1);
          },
          f32({2, 2})),
      op(
          "Gather", [](Fixture& f) { return f.o.gather(f.x, f.i64({1}, {1})); }, f32({1, 3})),
      op(
          "GatherElements",
          [](Fixture& f) {
            return f.o.gatherelements(f.x, f.i64({1, 3}, {1}));
          },
          f32({1, 3})),
      op(
          "GatherND",
          [](Fixture& f) {
            return f.o.gathernd(f.x, f.i64({4, 1}, {1}));
          },
          f32({4, 3})),
      op(
          "NonZero",
          [](Fixture& f) {
            return f.o.nonzero(f.i64({2, 2}, {1, 0, 1, 1}));
          },
          i64({2, 3})),
      op(
          "OneHot",
          [](Fixture& f) {
            return f.o.onehot(f.i64({2}, {0, 1}), 4, f.f32({2}, {0, 1}));
          },
          f32({2, 4})),
      op(
          "ReverseSequence",
          [](Fixture& f) {
            return f.o.reversesequence(f.sequence, f.i64({2}, {3, 5}));
          },
          f32({5, 2, 3})),
      op(
          "Scatter",
          [](Fixture& f) {
            return f.o.scatter(f.x, f.i64({1, 3}, {1}), f.ones({1, 3}));
          },
          kSame),
      op(
          "ScatterElements",
          [](Fixture& f) {
            return f.o.scatterelements(f.x, f.i64({1, 3}, {1}), f.ones({1, 3}), 0, "add");
          },
          kSame),
      op(
          "ScatterND",
          [](Fixture& f) {
            return f.o.scatternd(f.x, f.i64({1, 1}, {1}), f.ones({1, 3}), "mul");
          },
          kSame),
      {"TopK", [](Fixture& f) { return f.o.topk(f.x, 2); }, {f32({2, 2}), i64({2, 2})}},
      op(
          "Trilu", [](Fixture& f) { return f.o.trilu(f.square, 1); }, f32({3, 3})),
      {"Unique",
       [](Fixture& f) {
         return f.o.unique(f.i64({4}, {3, 1, 3, 1}));
       },
       {i64({2}), i64({2}), i64({4}), i64({2})}},
  };
}

std::vector<Case> shapeCases() {
  return {
      op(
          "Concat",
          [](Fixture& f) {
            return f.o.concat({f.x, f.x}, 0);
          },
          f32({4, 3})),
      op("Constant",
         [](Fixture& f) { return f.o.constant(HostTensor(DType::U8, Shape{7})); },
         {DType::U8, Shape{7}}),
      op(
          "ConstantOfShape",
          [](Fixture& f) {
            return f.o.constantofshape({2, 5}, HostTensor::scalar(std::int64_t{3}));
          },
          i64({2, 5})),
      op(
          "DepthToSpace",
          [](Fixture& f) {
            return f.o.depthtospace(f.ones({1, 4, 2, 3}), 2, "CRD");
          },
          f32({1, 1, 4, 6})),
      op(
          "Expand",
          [](Fixture& f) {
            return f.o.expand(f.x, {4, 1, 1});
          },
          f32({4, 2, 3})),
      op(
          "EyeLike", [](Fixture& f) { return f.o.eyelike(f.x, 1, DType::I64); }, i64({2, 3})),
      op(
          "Flatten", [](Fixture& f) { return f.o.flatten(f.sequence); }, f32({5, 6})),
      op(
          "Pad",
          [](Fixture& f) {
            return f.o.pad(f.x, {1, 0, 0, -1}, {.value = 2});
          },
          f32({3, 2})),
      op(
          "Range",
          [](Fixture& f) { return f.o.range(f.i64({}, {1}), f.i64({}, {8}), f.i64({}, {3})); },
          i64({3})),
      op(
          "Reshape",
          [](Fixture& f) {
            return f.o.reshape(f.x, {3, -1});
          },
          f32({3, 2})),
      op(
          "Shape", [](Fixture& f) { return f.o.shape(f.image); }, i64({4})),
      op(
          "Size", [](Fixture& f) { return f.o.size(f.image); }, i64({})),
      op(
          "Slice",
          [](Fixture& f) {
            return f.o.slice(f.x, {{1, 0, 2}});
          },
          f32({2, 2})),
      op(
          "SpaceToDepth",
          [](Fixture& f) { return f.o.spacetodepth(f.image, 2); },
          f32({1, 8, 2, 2})),
      {"Split",
       [](Fixture& f) {
         return f.o.split(f.x, {1, 2}, 1);
       },
       {f32({2, 1}), f32({2, 2})}},
      op(
          "Squeeze", [](Fixture& f) { return f.o.squeeze(f.image); }, f32({2, 4, 4})),
      op(
          "Tile",
          [](Fixture& f) {
            return f.o.tile(f.x, {2, 1});
          },
          f32({4, 3})),
      op(
          "Transpose", [](Fixture& f) { return f.o.transpose(f.x); }, f32({3, 2})),
      op(
          "Unsqueeze", [](Fixture& f) { return f.o.unsqueeze(f.x, {0}); }, f32({1, 2, 3})),
  };
}

std::vector<Case> imageAndRandomCases() {
  return {
      op(
          "GridSample",
          [](Fixture& f) {
            return f.o.gridsample(f.image, f.ones({1, 3, 5, 2}), {.mode = "nearest"});
          },
          f32({1, 2, 3, 5})),
      op(
          "NonMaxSuppression",
          [](Fixture& f) {
            // Two boxes that are the same: one of them is left.
            const TensorId boxes = f.f32({1, 2, 4}, {0, 0, 1, 1, 0, 0, 1, 1});
            return f.o.nonmaxsuppression(
                boxes, f.f32({1, 1, 2}, {0.9, 0.8}), {.maxPerClass = 2, .iouThreshold = 0.5});
          },
          i64({1, 3})),
      op(
          "Resize",
          [](Fixture& f) {
            return f.o.resize(f.image, {.scales = {1, 1, 2, 0.5}, .mode = "linear"});
          },
          f32({1, 2, 8, 2})),
      op(
          "RoiAlign",
          [](Fixture& f) {
            return f.o.roialign(
                f.image, f.ones({3, 4}), f.i64({3}, {0}), {.rows = 2, .columns = 5});
          },
          f32({3, 2, 2, 5})),
      op(
          "Bernoulli", [](Fixture& f) { return f.o.bernoulli(f.x, DType::I64); }, i64({2, 3})),
      op(
          "Dropout", [](Fixture& f) { return f.o.dropout(f.x); }, kSame),
      op("Multinomial",
         [](Fixture& f) { return f.o.multinomial(f.x, 4); },
         {DType::I32, Shape{2, 4}}),
      op("RandomNormal",
         [](Fixture& f) {
           return f.o.randomnormal({DType::F64, Shape{2, 2}}, {.mean = 1});
         },
         {DType::F64, Shape{2, 2}}),
      op(
          "RandomNormalLike", [](Fixture& f) { return f.o.randomnormallike(f.x); }, kSame),
      op(
          "RandomUniform", [](Fixture& f) { return f.o.randomuniform(f32({})); }, f32({})),
      op(
          "RandomUniformLike",
          [](Fixture& f) { return f.o.randomuniformlike(f.whole, {}, DType::F32); },
          kSame),
  };
}

RecurrentTensors weights(Fixture& f, std::int64_t gates) {
  return {.w = f.ones({1, gates * 4, 3}), .r = f.ones({1, gates * 4, 4})};
}

std::vector<Case> sequenceCases() {
  const TensorType all = f32({5, 1, 2, 4});
  const TensorType last = f32({1, 2, 4});
  return {
      {"GRU",
       [](Fixture& f) { return f.o.gru(f.sequence, weights(f, 3), {.linearBeforeReset = true}); },
       {all, last}},
      {"LSTM",
       [](Fixture& f) { return f.o.lstm(f.sequence, weights(f, 4), {.clip = 2}); },
       {all, last, last}},
      {"RNN",
       [](Fixture& f) {
         return f.o.rnn(
             f.sequence, weights(f, 1), {.activations = {"LeakyRelu"}, .activationAlpha = {0.1}});
       },
       {all, last}},
      op(
          "BlackmanWindow", [](Fixture& f) { return f.o.blackmanwindow(8); }, f32({8})),
      op("HammingWindow",
         [](Fixture& f) { return f.o.hammingwindow(8, {.dtype = DType::F64}); },
         {DType::F64, Shape{8}}),
      op(
          "HannWindow", [](Fixture& f) { return f.o.hannwindow(8); }, f32({8})),
      op(
          "DFT",
          [](Fixture& f) {
            return f.o.dft(f.ones({1, 8, 1}), {.onesided = true});
          },
          f32({1, 5, 2})),
      op(
          "STFT",
          [](Fixture& f) {
            return f.o.stft(f.ones({1, 16, 1}), {.frameStep = 4, .frameLength = 8});
          },
          f32({1, 3, 5, 2})),
      op(
          "MelWeightMatrix",
          [](Fixture& f) {
            return f.o.melweightmatrix(
                {.bins = 3, .dftLength = 16, .sampleRate = 8000, .upperEdge = 4000});
          },
          f32({9, 3})),
      op(
          "TfIdfVectorizer",
          [](Fixture& f) {
            return f.o.tfidfvectorizer(
                f.whole, {.pool = {2, 3}, .ngramCounts = {0}, .ngramIndexes = {0, 1}});
          },
          f32({2, 2})),
  };
}

std::vector<Case> onnxCases() {
  std::vector<Case> all;
  for (auto family : {elementwiseCases(),
                      linearCases(),
                      nnCases(),
                      reductionAndIndexingCases(),
                      shapeCases(),
                      imageAndRandomCases(),
                      sequenceCases()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

Case vendorUnary(std::string_view onnx, TensorId (AiGraphcore::*op)(const TensorId&)) {
  return {onnx, [op](Fixture& f) { return Ids{(f.g.*op)(f.x)}; }, {kSame}};
}
Case vendorBinary(std::string_view onnx,
                  TensorId (AiGraphcore::*op)(const TensorId&, const TensorId&)) {
  return {onnx, [op](Fixture& f) { return Ids{(f.g.*op)(f.x, f.x)}; }, {kSame}};
}
Case bitwise(std::string_view onnx, TensorId (AiGraphcore::*op)(const TensorId&, const TensorId&)) {
  return {onnx,
          [op](Fixture& f) { return Ids{(f.g.*op)(f.whole, f.whole)}; },
          {{DType::I32, Shape{2, 3}}}};
}

std::vector<Case> vendorElementwiseCases() {
  return {
      vendorUnary("Detach", &AiGraphcore::detach),
      vendorUnary("Expm1", &AiGraphcore::expm1),
      vendorUnary("Gelu", &AiGraphcore::gelu),
      vendorUnary("GeluErf", &AiGraphcore::geluerf),
      vendorUnary("Log1p", &AiGraphcore::log1p),
      vendorUnary("Nop", &AiGraphcore::nop),
      vendorUnary("Round", &AiGraphcore::round),
      vendorUnary("Square", &AiGraphcore::square),
      vendorUnary("Swish", &AiGraphcore::swish),
      vendorUnary("ZerosLike", &AiGraphcore::zeroslike),
      vendorBinary("Atan2", &AiGraphcore::atan2),
      vendorBinary("Fmod", &AiGraphcore::fmod),
      vendorBinary("Remainder", &AiGraphcore::remainder),
      bitwise("BitwiseAnd", &AiGraphcore::bitwiseand),
      bitwise("BitwiseOr", &AiGraphcore::bitwiseor),
      bitwise("BitwiseXnor", &AiGraphcore::bitwisexnor),
      bitwise("BitwiseXor", &AiGraphcore::bitwisexor),
      op("BitwiseNot",
         [](Fixture& f) { return f.g.bitwisenot(f.whole); },
         {DType::I32, Shape{2, 3}}),
      op(
          "IncrementMod", [](Fixture& f) { return f.g.incrementmod(f.x, 1, 3); }, kSame),
      op(
          "Scale", [](Fixture& f) { return f.g.scale(f.x, 0.1); }, kSame),
      op(
          "ScaledAdd", [](Fixture& f) { return f.g.scaledadd(f.x, f.x, 2, 3); }, kSame),
      op(
          "Init", [](Fixture& f) { return f.g.init(i64({2})); }, i64({2})),
      op(
          "Zeros",
          [](Fixture& f) {
            return f.g.zeros(i64({2, 4}));
          },
          i64({2, 4})),
  };
}

std::vector<Case> vendorCases() {
  std::vector<Case> all = {
      op(
          "Ctc",
          [](Fixture& f) {
            const TensorId targets = f.i64({2, 2}, {1, 2, 2, 1});
            return f.g.ctcloss(f.sequence, {targets, f.i64({2}, {5, 5}), f.i64({2}, {2, 2})}, {});
          },
          f32({})),
      op(
          "GroupNormalization",
          [](Fixture& f) { return f.g.groupnormalization(f.image, f.ones({2}), f.ones({2}), 2); },
          f32({1, 2, 4, 4})),
      op(
          "IdentityLoss", [](Fixture& f) { return f.g.identityloss(f.x); }, f32({})),
      op(
          "L1", [](Fixture& f) { return f.g.l1loss(f.x); }, f32({})),
      {"MultiConv",
       [](Fixture& f) {
         return f.g.multiconv({{f.image, f.ones({3, 2, 2, 2}), {}},
                               {f.image, f.ones({2, 1, 3, 3}), {.pads = {1, 1, 1, 1}}}});
       },
       {f32({1, 3, 3, 3}), f32({1, 2, 4, 4})}},
      op(
          "Nll",
          [](Fixture& f) {
            return f.g.nllloss(f.x, f.i64({2}, {0, 2}));
          },
          f32({})),
      op("Bucketize",
         [](Fixture& f) {
           return f.g.bucketize(f.x, f.f32({2}, {0, 1}));
         },
         {DType::I32, Shape{2, 3}}),
      op(
          "DynamicAdd",
          [](Fixture& f) {
            return f.g.dynamicadd(f.x, f.i64({1}, {1}), f.ones({1, 3}), {{0}, {1}});
          },
          kSame),
      op(
          "DynamicSlice",
          [](Fixture& f) {
            return f.g.dynamicslice(f.x, f.i64({1}, {1}), {{1}, {2}});
          },
          f32({2, 2})),
      op(
          "DynamicUpdate",
          [](Fixture& f) {
            return f.g.dynamicupdate(f.x, f.i64({1}, {1}), f.ones({1, 3}), {{0}, {1}});
          },
          kSame),
      op(
          "DynamicZero",
          [](Fixture& f) {
            return f.g.dynamiczero(f.x, f.i64({1}, {1}), {{0}, {1}});
          },
          kSame),
      op("Histogram",
         [](Fixture& f) {
           return f.g.histogram(f.x, {0, 0.1, 1});
         },
         {DType::U32, Shape{4}}),
      op(
          "Reshape",
          [](Fixture& f) {
            return f.g.reshape(f.x, {3, 2});
          },
          f32({3, 2})),
      op(
          "Reverse", [](Fixture& f) { return f.g.reverse(f.x, {1}); }, kSame),
      op(
          "ScatterReduce",
          [](Fixture& f) {
            return f.g.scatterreduce(f.x, f.i64({2, 3}, {1}), {.axis = 1, .axisSize = 5});
          },
          f32({2, 5})),
      op(
          "SequenceSlice",
          [](Fixture& f) {
            const TensorId one = f.i64({1}, {1});
            return f.g.sequenceslice(f.x, f.square, {one, one, one}, true);
          },
          f32({3, 3})),
      {"Sort", [](Fixture& f) { return f.g.sort(f.x); }, {kSame, i64({2, 3})}},
      op(
          "Subsample",
          [](Fixture& f) {
            return f.g.subsample(f.x, {1, 2});
          },
          f32({2, 2})),
  };
  const std::vector<Case> more = vendorElementwiseCases();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void expectTypes(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.onnx));
    Fixture f;
    Ids made;
    try {
      made = c.make(f);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    std::vector<TensorType> types;
    for (const TensorId& id : made) {
      types.push_back({f.b.getTensorDtype(id), f.b.getTensorShape(id)});
    }
    EXPECT_EQ(types, c.types);
    ir::verify(f.b.graph());
  }
}

TEST(AiOnnx, MakesEachOpWithItsResultTypes) {
  expectTypes(onnxCases());
}

TEST(AiGraphcore, MakesEachOpWithItsResultTypes) {
  expectTypes(vendorCases());
}

/// What the importer translates of a domain in opset 17, but for the given names.
std::set<std::string_view> importedOps(std::string_view domain,
                                       const std::set<std::string_view>& without) {
  std::set<std::string_view> names;
  for (const auto family : {onnx::controlTranslations(),
                            onnx::elementwiseTranslations(),
                            onnx::imageTranslations(),
                            onnx::indexingTranslations(),
                            onnx::linearTranslations(),
                            onnx::lossTranslations(),
                            onnx::mathTranslations(),
                            onnx::nnTranslations(),
                            onnx::normTranslations(),
                            onnx::poolTranslations(),
                            onnx::randomTranslations(),
                            onnx::recurrentTranslations(),
                            onnx::reductionTranslations(),
                            onnx::sequenceTranslations(),
                            onnx::shapeTranslations(),
                            onnx::signalTranslations(),
                            onnx::vendorIndexingTranslations(),
                            onnx::vendorTranslations()}) {
    for (const onnx::Translation& translation : family) {
      if (translation.domain == domain) {
        names.insert(translation.op);
      }
    }
  }
  for (const ir::OpDef* def : ops::opSet().all()) {
    for (const ir::OnnxName& name : def->onnx) {
      if (name.domain == domain && name.since <= 17) {
        names.insert(name.name);
      }
    }
  }
  std::erase_if(names, [&](std::string_view name) { return without.contains(name); });
  return names;
}

std::set<std::string_view> namesOf(const std::vector<Case>& cases) {
  std::set<std::string_view> names;
  for (const Case& c : cases) {
    names.insert(c.onnx);
  }
  return names;
}

TEST(AiOnnx, HasEveryOpThatIsImported) {
  std::set<std::string_view> expected = importedOps("",
                                                    {"If",
                                                     "Loop",
                                                     "Scan",
                                                     "ConcatFromSequence",
                                                     "SequenceAt",
                                                     "SequenceConstruct",
                                                     "SequenceEmpty",
                                                     "SequenceErase",
                                                     "SequenceInsert",
                                                     "SequenceLength",
                                                     "SplitToSequence",
                                                     "Upsample"});  // gone since opset 10
  expected.insert("DynamicQuantizeLinear");  // imported by the standard's own definition
  EXPECT_EQ(namesOf(onnxCases()), expected);
}

TEST(AiGraphcore, HasEveryOpThatIsImported) {
  EXPECT_EQ(namesOf(vendorCases()), importedOps("ai.graphcore", {}));
}

/// The values of one op for x = [[-1, 4, 9], [1, 0.25, 16]], by the reference kernels.
Values valuesOf(TensorId (*make)(Fixture&)) {
  Fixture f;
  const TensorId id = make(f);
  f.b.addOutputTensor(id);
  ops::TensorMap inputs;
  for (const ir::OpId op : f.b.graph().order()) {
    if (f.b.graph().op(op).is(ir::kInput)) {
      inputs[f.b.graph().op(op).name] = HostTensor(f.b.graph().op(op).outputs[0]);
    }
  }
  inputs["x"] = Fixture::tensor(DType::F32, Shape{2, 3}, {-1, 4, 9, 1, 0.25, 16});
  ops::TensorMap variables;
  return ops::evaluate(f.b.graph(), inputs, variables).at(id).toDoubles();
}

TEST(AiOnnx, ComputesWhatTheOpsArePassed) {
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.leakyrelu(f.x, 0.5); }),
            (Values{-0.5, 4, 9, 1, 0.25, 16}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.shrink(f.x, 2, 1); }),
            (Values{0, 3, 8, 0, 0, 15}));
  EXPECT_EQ(valuesOf([](Fixture& f) {
              return f.o.mean({f.x, f.f32({}, {3})});
            }),
            (Values{1, 3.5, 6, 2, 1.625, 9.5}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.mod(f.x, f.f32({}, {3}), true); }),
            (Values{-1, 1, 0, 1, 0.25, 1}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.reducesumsquare(f.x, {1}); }),
            (Values{98, 257.0625}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.argmin(f.x, {.axis = 1}); }), (Values{0, 1}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.cumsum(f.x, -1, {.exclusive = true}); }),
            (Values{0, -1, 3, 0, 1, 1.25}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.topk(f.x, 1, {.largest = false})[0]; }),
            (Values{-1, 0.25}));
  EXPECT_EQ(valuesOf([](Fixture& f) {
              return f.o.pad(f.x, {0, 1, 0, -1}, {.value = 7});
            }),
            (Values{7, -1, 4, 7, 1, 0.25}));
  EXPECT_EQ(valuesOf([](Fixture& f) {
              return f.o.quantizelinear(f.x, {f.f32({}, {0.5}), f.u8({}, {3})});
            }),
            (Values{1, 11, 21, 5, 3, 35}));  // 0.25 / 0.5 is rounded to the even 0
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.o.trilu(f.x, 1, false); }),
            (Values{-1, 4, 0, 1, 0.25, 16}));
  // A number that has no short decimal form reaches the op as the nearest of 32 bits.
  const double third = 1.0 / 3;
  EXPECT_FLOAT_EQ(
      static_cast<float>(valuesOf([](Fixture& f) { return f.o.leakyrelu(f.x, 1.0 / 3); })[0]),
      static_cast<float>(-third));
}

TEST(AiGraphcore, ComputesWhatTheOpsArePassed) {
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.g.scaledadd(f.x, f.x, 2, -1); }),
            (Values{-1, 4, 9, 1, 0.25, 16}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.g.remainder(f.x, f.f32({}, {3})); }),
            (Values{2, 1, 0, 1, 0.25, 1}));
  EXPECT_EQ(valuesOf([](Fixture& f) {
              return f.g.histogram(f.x, {0.25, 4.5});
            }),
            (Values{1, 3, 2}));
  EXPECT_EQ(valuesOf([](Fixture& f) {
              return f.g.dynamicslice(f.x, f.i64({1}, {1}), {{1}, {2}});
            }),
            (Values{4, 9, 0.25, 16}));
  EXPECT_EQ(valuesOf([](Fixture& f) { return f.g.sort(f.x, 1, true)[1]; }),
            (Values{2, 1, 0, 2, 0, 1}));
}

TEST(AiOnnx, LeavesNoUnusedConstantsForArgumentsThatAreOperands) {
  Fixture f;
  const std::size_t before = f.b.graph().numOps();
  f.o.tile(f.x, {2, 1});
  EXPECT_EQ(f.b.graph().numOps(), before + 1);
}

TEST(AiOnnx, RefusesUnknownTensorsAndWhatDoesNotFit) {
  Fixture f;
  const std::size_t before = f.b.graph().numOps();
  EXPECT_THAT(messageOf([&] { f.o.acos("nobody"); }), HasSubstr("'nobody'"));
  EXPECT_THAT(messageOf([&] { f.o.max({f.x, "nobody"}); }), HasSubstr("'nobody'"));
  EXPECT_THAT(messageOf([&] { f.o.pad("nobody", {0, 0}); }), HasSubstr("'nobody'"));
  EXPECT_THAT(messageOf([&] { f.o.topk("nobody", 1); }), HasSubstr("'nobody'"));
  EXPECT_THAT(messageOf([&] { f.g.swish("nobody"); }), HasSubstr("'nobody'"));
  EXPECT_THAT(messageOf([&] { f.g.multiconv({{"nobody", f.image, {}}}); }), HasSubstr("'nobody'"));
  EXPECT_THAT(messageOf([&] {
                f.g.multiconv({{f.image, f.image, {.strides = {2}}}});
              }),
              HasSubstr("expected 2 numbers, got 1"));
  EXPECT_THAT(messageOf([&] { f.o.gru(f.sequence, {.w = f.x, .r = f.x, .peepholes = f.x}); }),
              HasSubstr("peepholes"));
  EXPECT_THAT(messageOf([&] { f.o.depthtospace(f.image, 2, "XYZ"); }), HasSubstr("XYZ"));
  EXPECT_EQ(f.b.graph().numOps(), before);
}

}  // namespace
}  // namespace sluice
