// What the Builder's ops take besides tensors: one struct for each op with several attributes. They
// have ONNX's defaults and are meant for designated initializers. An empty tensor id leaves an
// operand out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sluice/ops/op_options.h"
#include "sluice/tensor/host_tensor.h"
#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice {

using TensorId = std::string;

/// A tensor of the graph (an empty id leaves the operand out), a value, or a list of i64 numbers.
using OpOperand = std::variant<TensorId, HostTensor, std::vector<std::int64_t>>;

struct GemmOptions {
  float alpha = 1.0F;
  float beta = 1.0F;
  bool transA = false;
  bool transB = false;
};

struct SliceRange {
  std::int64_t axis = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;
};

/// The statistics and factors of batchnormalization, one per channel each.
struct BatchNormTensors {
  TensorId scale;
  TensorId bias;
  TensorId mean;
  TensorId variance;
};

struct NllLossOptions {
  ops::Reduction reduction = ops::Reduction::Mean;
  std::int64_t ignoreIndex = -100;
  bool inputIsLogProbability = false;
};

struct ArgOptions {
  std::int64_t axis = 0;
  bool keepdims = true;
  bool selectLastIndex = false;  ///< if several are equal, the last one wins
};

struct IsInfOptions {
  bool detectNegative = true;
  bool detectPositive = true;
};

struct ConvTransposeOptions {
  std::vector<std::int64_t> strides = {};
  std::vector<std::int64_t> pads = {};
  std::vector<std::int64_t> dilations = {};
  std::int64_t groups = 1;
  std::vector<std::int64_t> outputPadding = {};
  std::vector<std::int64_t> outputShape = {};  ///< spatial extents; they determine the pads
};

/// A quantized tensor: real = scale (tensor - zeroPoint).
struct QuantizedTensor {
  TensorId tensor;
  TensorId scale;
  TensorId zeroPoint;
};

/// How a result is quantized.
struct Quantization {
  TensorId scale;
  TensorId zeroPoint;
};

struct ZeroPoints {
  TensorId x = {};
  TensorId w = {};
};

struct LrnOptions {
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1.0;
};

struct LayerNormOptions {
  std::int64_t axis = -1;
  double epsilon = 1e-5;
};

struct LossOptions {
  ops::Reduction reduction = ops::Reduction::Mean;
  std::optional<std::int64_t> ignoreIndex = std::nullopt;
  TensorId weight = {};  ///< one per class
};

struct TopKOptions {
  std::int64_t axis = -1;
  bool largest = true;
  bool sorted = true;
};

struct UniqueOptions {
  std::optional<std::int64_t> axis = std::nullopt;  ///< not set: x is flattened
  bool sorted = true;
};

struct PadOptions {
  std::string mode = "constant";  ///< constant, reflect or edge
  double value = 0.0;
};

struct NonMaxSuppressionOptions {
  std::int64_t maxPerClass = 0;
  double iouThreshold = 0.0;
  std::optional<double> scoreThreshold = std::nullopt;
  bool centerPointBox = false;
};

/// The operands of lstm, gru and rnn besides the sequence.
struct RecurrentTensors {
  TensorId w;
  TensorId r;
  TensorId b = {};
  TensorId lengths = {};
  TensorId initialH = {};
  TensorId initialC = {};   ///< lstm only
  TensorId peepholes = {};  ///< lstm only
};

struct RecurrentOptions {
  std::string direction = "forward";  ///< forward, reverse or bidirectional
  bool batchFirst = false;            ///< ONNX's layout 1
  double clip = 0.0;                  ///< 0: not clipped
  bool inputForget = false;           ///< lstm only
  bool linearBeforeReset = false;     ///< gru only
  std::vector<std::string> activations = {};
  std::vector<double> activationAlpha = {};
  std::vector<double> activationBeta = {};
};

struct NormalOptions {
  double mean = 0.0;
  double scale = 1.0;
};

struct UniformOptions {
  double low = 0.0;
  double high = 1.0;
};

struct DftOptions {
  std::int64_t axis = 1;
  bool inverse = false;
  bool onesided = false;
  std::optional<std::int64_t> length = std::nullopt;
};

struct StftOptions {
  std::int64_t frameStep = 1;
  TensorId window = {};
  std::optional<std::int64_t> frameLength = std::nullopt;  ///< not set: the window's length
  bool onesided = true;
};

struct WindowOptions {
  bool periodic = true;
  DType dtype = DType::F32;
};

struct MelWeightOptions {
  std::int64_t bins = 1;
  std::int64_t dftLength = 1;
  std::int64_t sampleRate = 1;
  double lowerEdge = 0.0;
  double upperEdge = 1.0;
  DType dtype = DType::F32;
};

struct TfIdfOptions {
  std::string mode = "TF";  ///< TF, IDF or TFIDF
  std::int64_t minGramLength = 1;
  std::int64_t maxGramLength = 1;
  std::int64_t maxSkipCount = 0;
  std::vector<std::int64_t> pool = {};          ///< the n-grams, the shorter ones first
  std::vector<std::int64_t> ngramCounts = {};   ///< the start of each n-gram length in the pool
  std::vector<std::int64_t> ngramIndexes = {};  ///< the output column of each n-gram
  std::vector<double> weights = {};
};

/// The block to slice or update. There are as many sizes as axes.
struct DynamicBlock {
  std::vector<std::int64_t> axes;
  std::vector<std::int64_t> sizes;
};

/// The operands of ctcloss besides the log-probabilities [steps, batch, classes].
struct CtcTensors {
  TensorId targets;        ///< [batch, labels]
  TensorId inputLengths;   ///< [batch]
  TensorId targetLengths;  ///< [batch]
};

struct VendorBatchNormOptions {
  bool training = false;  ///< uses the batch's own statistics, which are results 3 and 4
  double epsilon = 1e-5;
  double momentum = 0.9;
};

struct PackedDataBlockOptions {
  std::vector<std::int64_t> maxSequenceLengths;  ///< one per input of the callback
  std::int64_t resultSize = 0;                   ///< in rows
  std::int64_t callbackBatchSize = 1;            ///< sequences per call
};

using ops::CollectiveOperator;

struct ScatterReduceOptions {
  std::int64_t axis = -1;
  std::int64_t axisSize = 0;      ///< the extent of the axis in the result
  std::string reduction = "sum";  ///< sum, max, min, mul or none
  TensorId initialValues = {};
};

/// For each sequence: how many rows are moved, from where and to where.
struct SequenceSliceTensors {
  TensorId counts;
  TensorId sourceOffsets;
  TensorId destinationOffsets;
};

/// One convolution of multiconv. The number of its groups follows from the channels.
struct MultiConvPart {
  TensorId x;
  TensorId w;
  ops::ConvOptions options = {};
};

}  // namespace sluice

// How the op sets of a Builder declare methods with one line per op. Ops that take tensors and
// nothing else only name their op. As in PopART, most ops also take their tensors as a list:
// matmul({x, w}), gather({x, indices}, axis).

namespace sluice::detail {

/// Throws InvalidArgument unless there are so many.
void requireTensors(std::string_view op,
                    const std::vector<std::string>& inputs,
                    std::size_t least,
                    std::size_t most);

template <class Call, std::size_t... kIs>
auto spread(const std::vector<std::string>& inputs,
            const Call& call,
            std::index_sequence<kIs...> /*positions*/) {
  return call(inputs[kIs]...);
}

}  // namespace sluice::detail

// NOLINTBEGIN(bugprone-macro-parentheses): names, not expressions

// The semicolon after a macro ends this.
#define SLUICE_BUILDER_END static_assert(true)

/// An op of one tensor; of several, which also come as a list.
#define SLUICE_BUILDER_OP_1(method, op) \
  TensorId method(const TensorId& x) {  \
    return one(op, {x});                \
  }                                     \
  SLUICE_BUILDER_END
#define SLUICE_BUILDER_OP_2(method, op)                   \
  TensorId method(const TensorId& x, const TensorId& y) { \
    return one(op, {x, y});                               \
  }                                                       \
  SLUICE_BUILDER_LIST(method, 2)
#define SLUICE_BUILDER_OP_3(method, op)                                      \
  TensorId method(const TensorId& x, const TensorId& y, const TensorId& z) { \
    return one(op, {x, y, z});                                               \
  }                                                                          \
  SLUICE_BUILDER_LIST(method, 3)

/// Functions of each element, by ONNX's names: a line each. The op set has a method for every line,
/// and so has the table of the Builder's tests a case.
#define SLUICE_BUILDER_ELEMENTWISE(OP) \
  OP(acos, "Acos");                    \
  OP(acosh, "Acosh");                  \
  OP(asin, "Asin");                    \
  OP(asinh, "Asinh");                  \
  OP(atan, "Atan");                    \
  OP(atanh, "Atanh");                  \
  OP(ceil, "Ceil");                    \
  OP(cos, "Cos");                      \
  OP(cosh, "Cosh");                    \
  OP(erf, "Erf");                      \
  OP(floor, "Floor");                  \
  OP(hardswish, "HardSwish");          \
  OP(reciprocal, "Reciprocal");        \
  OP(round, "Round");                  \
  OP(selu, "Selu");                    \
  OP(sign, "Sign");                    \
  OP(sin, "Sin");                      \
  OP(sinh, "Sinh");                    \
  OP(softplus, "Softplus");            \
  OP(softsign, "Softsign");            \
  OP(tan, "Tan")

/// The list form of a method whose first `count` parameters are tensors.
#define SLUICE_BUILDER_LIST(method, count)                              \
  template <class... Rest>                                              \
  auto method(const Ids& inputs, Rest&&... rest) {                      \
    detail::requireTensors(#method, inputs, count, count);              \
    return detail::spread(                                              \
        inputs,                                                         \
        [&](const auto&... tensors) {                                   \
          return this->method(tensors..., std::forward<Rest>(rest)...); \
        },                                                              \
        std::make_index_sequence<count>());                             \
  }                                                                     \
  SLUICE_BUILDER_END

/// The same for a method with options after the tensors, so that they can be written in braces.
#define SLUICE_BUILDER_LIST_WITH(method, count, Options)                           \
  auto method(const Ids& inputs, const Options& options = {}) {                    \
    detail::requireTensors(#method, inputs, count, count);                         \
    return detail::spread(                                                         \
        inputs,                                                                    \
        [&](const auto&... tensors) { return this->method(tensors..., options); }, \
        std::make_index_sequence<count>());                                        \
  }                                                                                \
  SLUICE_BUILDER_END

// NOLINTEND(bugprone-macro-parentheses)

#pragma GCC visibility pop
