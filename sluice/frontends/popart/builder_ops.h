// AiOnnx, an op set of a Builder: the ops of ONNX's opset 17, with their names in lower case.
// builder.h includes this file.
//
// Every op throws InvalidArgument for a tensor that is unknown or does not fit, and then leaves the
// graph unchanged. A value that determines a shape is either a plain argument or a tensor that must
// be known: a constant or an initialized tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sluice/frontends/popart/builder_op_options.h"
#include "sluice/ir/attrs.h"
#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice {

class Builder;

/// ONNX's ops.
class AiOnnx {
 public:
  explicit AiOnnx(Builder& builder) : b_(builder) {}
  using Ints = std::vector<std::int64_t>;
  using Ids = std::vector<TensorId>;

  /// Any op of opset 17 by its ONNX name. An empty id leaves an operand out, attributes have their
  /// ONNX names, and `outputs` is the number of results wanted. An operand that determines a shape
  /// or an axis must be a constant or an initialized tensor.
  Ids node(std::string_view op,
           const Ids& inputs,
           std::vector<ir::NamedAttr> attrs = {},
           std::size_t outputs = 1);

  // Ops that take tensors and nothing else. NOLINTBEGIN(readability-identifier-naming): PopART's
  // names, where the short ones are reserved words.
  SLUICE_BUILDER_ELEMENTWISE(SLUICE_BUILDER_OP_1);
  /// To the element type of y.
  SLUICE_BUILDER_OP_2(castlike, "CastLike");
  SLUICE_BUILDER_OP_1(det, "Det");
  SLUICE_BUILDER_OP_2(equal, "Equal");
  SLUICE_BUILDER_OP_1(globalmaxpool, "GlobalMaxPool");
  SLUICE_BUILDER_OP_2(greater, "Greater");
  SLUICE_BUILDER_OP_2(greaterorequal, "GreaterOrEqual");
  SLUICE_BUILDER_OP_1(isnan, "IsNaN");
  SLUICE_BUILDER_OP_2(less, "Less");
  SLUICE_BUILDER_OP_2(lessorequal, "LessOrEqual");
  SLUICE_BUILDER_OP_2(logical_and, "And");
  SLUICE_BUILDER_OP_1(logical_not, "Not");
  SLUICE_BUILDER_OP_2(logical_or, "Or");
  SLUICE_BUILDER_OP_2(logical_xor, "Xor");
  /// x must be known.
  SLUICE_BUILDER_OP_1(nonzero, "NonZero");
  SLUICE_BUILDER_OP_2(prelu, "PRelu");
  /// Three known numbers.
  SLUICE_BUILDER_OP_3(range, "Range");
  SLUICE_BUILDER_OP_1(shape, "Shape");
  SLUICE_BUILDER_OP_1(size, "Size");
  // NOLINTEND(readability-identifier-naming)

  // Ops that almost every graph has; they are made without a detour over ONNX.
  TensorId abs(const TensorId& x);
  TensorId add(const TensorId& x, const TensorId& y);
  TensorId div(const TensorId& x, const TensorId& y);
  TensorId exp(const TensorId& x);
  TensorId log(const TensorId& x);
  TensorId mul(const TensorId& x, const TensorId& y);
  TensorId neg(const TensorId& x);
  TensorId relu(const TensorId& x);
  TensorId sigmoid(const TensorId& x);
  TensorId sqrt(const TensorId& x);
  TensorId sub(const TensorId& x, const TensorId& y);
  TensorId tanh(const TensorId& x);

  // Functions of each element.
  TensorId cast(const TensorId& x, DType to);
  TensorId clip(const TensorId& x, double min, double max);
  TensorId identity(const TensorId& x);
  TensorId isinf(const TensorId& x, const IsInfOptions& options = {});

  // Activations.
  TensorId celu(const TensorId& x, double alpha = 1.0);
  TensorId elu(const TensorId& x, double alpha = 1.0);
  TensorId hardsigmoid(const TensorId& x, double alpha = 0.2, double beta = 0.5);
  TensorId leakyrelu(const TensorId& x, double alpha = 0.01);
  TensorId selu(const TensorId& x, double alpha, double gamma);
  TensorId shrink(const TensorId& x, double lambd = 0.5, double bias = 0.0);
  TensorId thresholdedrelu(const TensorId& x, double alpha = 1.0);

  // Two or more tensors, broadcast.
  /// direction is LEFT or RIGHT.
  TensorId bitshift(const TensorId& x, const TensorId& y, std::string_view direction);
  TensorId max(const Ids& tensors);
  TensorId mean(const Ids& tensors);
  TensorId min(const Ids& tensors);
  /// The result has the sign of x with fmod, else the sign of y.
  TensorId mod(const TensorId& x, const TensorId& y, bool fmod = false);
  TensorId pow(const TensorId& x, const TensorId& y);
  TensorId sum(const Ids& tensors);
  TensorId where(const TensorId& condition, const TensorId& x, const TensorId& y);

  // Products and convolutions. An empty bias means no bias.
  TensorId conv(const TensorId& x,
                const TensorId& w,
                const ops::ConvOptions& options = {},
                const TensorId& bias = {});
  TensorId convinteger(const TensorId& x,
                       const TensorId& w,
                       const ZeroPoints& zeroPoints = {},
                       const ops::ConvOptions& options = {});
  TensorId convtranspose(const TensorId& x,
                         const TensorId& w,
                         const ConvTransposeOptions& options = {},
                         const TensorId& bias = {});
  TensorId dequantizelinear(const QuantizedTensor& x, std::int64_t axis = 1);
  /// The numbers as u8, their scale and their zero point.
  Ids dynamicquantizelinear(const TensorId& x);
  TensorId einsum(std::string_view equation, const Ids& tensors);
  /// alpha x y + beta c. An empty c is left out.
  TensorId gemm(const TensorId& x,
                const TensorId& y,
                const TensorId& c = {},
                const GemmOptions& options = {});
  TensorId matmul(const TensorId& x, const TensorId& y);
  TensorId matmulinteger(const TensorId& x, const TensorId& y, const ZeroPoints& zeroPoints = {});
  /// The type of the bias is i32.
  TensorId qlinearconv(const QuantizedTensor& x,
                       const QuantizedTensor& w,
                       const Quantization& result,
                       const ops::ConvOptions& options = {},
                       const TensorId& bias = {});
  TensorId qlinearmatmul(const QuantizedTensor& x,
                         const QuantizedTensor& y,
                         const Quantization& result);
  /// Without a zero point the type of the result is u8.
  TensorId quantizelinear(const TensorId& x, const Quantization& result, std::int64_t axis = 1);

  // Pooling.
  TensorId averagepool(const TensorId& x, const ops::PoolOptions& options);
  TensorId globalaveragepool(const TensorId& x);
  TensorId globallppool(const TensorId& x, std::int64_t p = 2);
  TensorId lppool(const TensorId& x, const ops::PoolOptions& options, std::int64_t p = 2);
  TensorId maxpool(const TensorId& x, const ops::PoolOptions& options);
  /// With 2 outputs, also returns the indices of the maxima in all of x, as maxunpool takes them.
  Ids maxpool(const TensorId& x, const ops::PoolOptions& options, std::size_t outputs);
  /// An empty outputShape stands for the smallest shape that pooling reduces to that of x.
  TensorId maxunpool(const TensorId& x,
                     const TensorId& indices,
                     const ops::PoolOptions& options,
                     const Ints& outputShape = {});

  // Normalization and losses.
  /// The inference form.
  TensorId batchnormalization(const TensorId& x,
                              const BatchNormTensors& tensors,
                              double epsilon = 1e-5);
  TensorId hardmax(const TensorId& x, std::int64_t axis = -1);
  TensorId instancenormalization(const TensorId& x,
                                 const TensorId& scale,
                                 const TensorId& bias,
                                 double epsilon = 1e-5);
  /// An empty bias means no bias.
  TensorId layernormalization(const TensorId& x,
                              const TensorId& scale,
                              const TensorId& bias = {},
                              const LayerNormOptions& options = {});
  TensorId logsoftmax(const TensorId& x, std::int64_t axis = -1);
  TensorId lpnormalization(const TensorId& x, std::int64_t axis = -1, std::int64_t p = 2);
  TensorId lrn(const TensorId& x, std::int64_t size, const LrnOptions& options = {});
  TensorId meanvariancenormalization(const TensorId& x, const Ints& axes = {0, 2, 3});
  /// The classes are on axis 1.
  TensorId negativeloglikelihoodloss(const TensorId& logProbabilities,
                                     const TensorId& labels,
                                     const LossOptions& options = {});
  TensorId softmax(const TensorId& x, std::int64_t axis = -1);
  TensorId softmaxcrossentropyloss(const TensorId& scores,
                                   const TensorId& labels,
                                   const LossOptions& options = {});

  // Reductions. Empty axes stand for all axes.
  TensorId argmax(const TensorId& x, const ArgOptions& options = {});
  TensorId argmin(const TensorId& x, const ArgOptions& options = {});
  TensorId cumsum(const TensorId& x, std::int64_t axis, const ops::CumSumOptions& options = {});
  TensorId reducel1(const TensorId& x, const Ints& axes, bool keepdims = true);
  TensorId reducel2(const TensorId& x, const Ints& axes, bool keepdims = true);
  TensorId reducelogsum(const TensorId& x, const Ints& axes, bool keepdims = true);
  TensorId reducelogsumexp(const TensorId& x, const Ints& axes, bool keepdims = true);
  TensorId reducemax(const TensorId& x, const Ints& axes, bool keepdims = true);
  TensorId reducemean(const TensorId& x, const Ints& axes, bool keepdims = true);
  TensorId reducemin(const TensorId& x, const Ints& axes, bool keepdims = true);
  TensorId reduceprod(const TensorId& x, const Ints& axes, bool keepdims = true);
  TensorId reducesum(const TensorId& x, const Ints& axes, bool keepdims = true);
  TensorId reducesumsquare(const TensorId& x, const Ints& axes, bool keepdims = true);

  // Indexing.
  /// The condition must be known. Without an axis, x is flattened.
  TensorId compress(const TensorId& x,
                    const TensorId& condition,
                    std::optional<std::int64_t> axis = std::nullopt);
  TensorId gather(const TensorId& x, const TensorId& indices, std::int64_t axis = 0);
  TensorId gatherelements(const TensorId& x, const TensorId& indices, std::int64_t axis = 0);
  TensorId gathernd(const TensorId& x, const TensorId& indices, std::int64_t batchDims = 0);
  /// `values` holds the off value, then the on value.
  TensorId onehot(const TensorId& indices,
                  std::int64_t depth,
                  const TensorId& values,
                  std::int64_t axis = -1);
  TensorId reversesequence(const TensorId& x,
                           const TensorId& lengths,
                           std::int64_t batchAxis = 1,
                           std::int64_t timeAxis = 0);
  TensorId scatter(const TensorId& x,
                   const TensorId& indices,
                   const TensorId& updates,
                   std::int64_t axis = 0);
  /// reduction is none, add or mul.
  TensorId scatterelements(const TensorId& x,
                           const TensorId& indices,
                           const TensorId& updates,
                           std::int64_t axis = 0,
                           std::string_view reduction = "none");
  TensorId scatternd(const TensorId& x,
                     const TensorId& indices,
                     const TensorId& updates,
                     std::string_view reduction = "none");
  /// The values and their indices.
  Ids topk(const TensorId& x, std::int64_t k, const TopKOptions& options = {});
  TensorId trilu(const TensorId& x, std::int64_t k = 0, bool upper = true);
  /// The unique values, their first indices, for each element the number of its value, and the
  /// count of each value. x must be known.
  Ids unique(const TensorId& x, const UniqueOptions& options = {});

  // Shapes.
  TensorId concat(const Ids& parts, std::int64_t axis);
  TensorId constant(const HostTensor& value);
  /// A tensor of this shape, full of one number.
  TensorId constantofshape(const Ints& shape, const HostTensor& value = HostTensor::scalar(0.0F));
  /// mode is DCR or CRD.
  TensorId depthtospace(const TensorId& x, std::int64_t blocksize, std::string_view mode = "DCR");
  TensorId expand(const TensorId& x, const Ints& shape);
  /// Ones on diagonal k, zeros elsewhere. Without a dtype the result has that of x.
  TensorId eyelike(const TensorId& x,
                   std::int64_t k = 0,
                   std::optional<DType> dtype = std::nullopt);
  /// A matrix whose rows are the axes before `axis` and whose columns are the others.
  TensorId flatten(const TensorId& x, std::int64_t axis = 1);
  /// `pads` has the pads at the start of every axis, then those at the end. A negative pad cuts.
  TensorId pad(const TensorId& x, const Ints& pads, const PadOptions& options = {});
  /// 0 keeps an extent; a single -1 takes all that remains.
  TensorId reshape(const TensorId& x, const Ints& shape);
  TensorId slice(const TensorId& x, const std::vector<SliceRange>& ranges);
  TensorId spacetodepth(const TensorId& x, std::int64_t blocksize);
  Ids split(const TensorId& x, const Ints& sizes, std::int64_t axis = 0);
  TensorId squeeze(const TensorId& x, const Ints& axes = {});
  TensorId tile(const TensorId& x, const Ints& repeats);
  TensorId transpose(const TensorId& x, const Ints& perm = {});
  TensorId unsqueeze(const TensorId& x, const Ints& axes);

  // Images.
  TensorId gridsample(const TensorId& x,
                      const TensorId& grid,
                      const ops::GridSampleOptions& options = {});
  /// The boxes and scores must be known.
  TensorId nonmaxsuppression(const TensorId& boxes,
                             const TensorId& scores,
                             const NonMaxSuppressionOptions& options = {});
  /// The options must have either sizes or scales.
  TensorId resize(const TensorId& x, const ops::ResizeOptions& options);
  TensorId roialign(const TensorId& x,
                    const TensorId& regions,
                    const TensorId& batchIndices,
                    const ops::RoiAlignOptions& options = {});

  // Random numbers. They depend on the model's seed.
  TensorId bernoulli(const TensorId& x, std::optional<DType> dtype = std::nullopt);
  TensorId dropout(const TensorId& x, double ratio = 0.5);
  TensorId multinomial(const TensorId& x, std::int64_t sampleSize = 1, DType dtype = DType::I32);
  TensorId randomnormal(const TensorType& type, const NormalOptions& options = {});
  TensorId randomnormallike(const TensorId& x,
                            const NormalOptions& options = {},
                            std::optional<DType> dtype = std::nullopt);
  TensorId randomuniform(const TensorType& type, const UniformOptions& options = {});
  TensorId randomuniformlike(const TensorId& x,
                             const UniformOptions& options = {},
                             std::optional<DType> dtype = std::nullopt);

  // Sequences and signals.
  /// Each returns the states of all steps and the last state; lstm also returns the last cell
  /// state.
  Ids gru(const TensorId& x, const RecurrentTensors& tensors, const RecurrentOptions& options = {});
  Ids lstm(const TensorId& x,
           const RecurrentTensors& tensors,
           const RecurrentOptions& options = {});
  Ids rnn(const TensorId& x, const RecurrentTensors& tensors, const RecurrentOptions& options = {});
  TensorId blackmanwindow(std::int64_t size, const WindowOptions& options = {});
  TensorId hammingwindow(std::int64_t size, const WindowOptions& options = {});
  TensorId hannwindow(std::int64_t size, const WindowOptions& options = {});
  /// The last axis of x holds the real part, or the real and the imaginary part, of a number.
  TensorId dft(const TensorId& x, const DftOptions& options = {});
  TensorId stft(const TensorId& x, const StftOptions& options);
  TensorId melweightmatrix(const MelWeightOptions& options);
  TensorId tfidfvectorizer(const TensorId& x, const TfIdfOptions& options);

  // The tensors of an op as a list, in the order of the standard. Throws InvalidArgument for
  // another number of tensors.
  SLUICE_BUILDER_LIST(add, 2);
  SLUICE_BUILDER_LIST(sub, 2);
  SLUICE_BUILDER_LIST(mul, 2);
  SLUICE_BUILDER_LIST(div, 2);
  SLUICE_BUILDER_LIST(bitshift, 2);
  SLUICE_BUILDER_LIST(compress, 2);
  SLUICE_BUILDER_LIST(convinteger, 2);
  SLUICE_BUILDER_LIST(gather, 2);
  SLUICE_BUILDER_LIST(gatherelements, 2);
  SLUICE_BUILDER_LIST(gathernd, 2);
  SLUICE_BUILDER_LIST_WITH(gridsample, 2, ops::GridSampleOptions);
  SLUICE_BUILDER_LIST(instancenormalization, 3);
  SLUICE_BUILDER_LIST(matmul, 2);
  SLUICE_BUILDER_LIST_WITH(matmulinteger, 2, ZeroPoints);
  SLUICE_BUILDER_LIST(maxunpool, 2);
  SLUICE_BUILDER_LIST(mod, 2);
  SLUICE_BUILDER_LIST_WITH(negativeloglikelihoodloss, 2, LossOptions);
  SLUICE_BUILDER_LIST_WITH(nonmaxsuppression, 2, NonMaxSuppressionOptions);
  SLUICE_BUILDER_LIST(pow, 2);
  SLUICE_BUILDER_LIST(reversesequence, 2);
  SLUICE_BUILDER_LIST_WITH(roialign, 3, ops::RoiAlignOptions);
  SLUICE_BUILDER_LIST(scatter, 3);
  SLUICE_BUILDER_LIST(scatterelements, 3);
  SLUICE_BUILDER_LIST(scatternd, 3);
  SLUICE_BUILDER_LIST_WITH(softmaxcrossentropyloss, 2, LossOptions);
  SLUICE_BUILDER_LIST(where, 3);
  TensorId batchnormalization(const Ids& inputs, double epsilon = 1e-5);
  TensorId conv(const Ids& inputs, const ops::ConvOptions& options = {});
  TensorId convtranspose(const Ids& inputs, const ConvTransposeOptions& options = {});
  TensorId gemm(const Ids& inputs, const GemmOptions& options = {});
  TensorId layernormalization(const Ids& inputs, const LayerNormOptions& options = {});

 private:
  TensorId one(std::string_view op,
               const std::vector<OpOperand>& inputs,
               std::vector<ir::NamedAttr> attrs = {});
  Ids recurrent(std::string_view op,
                const TensorId& x,
                const RecurrentTensors& tensors,
                const RecurrentOptions& options);
  TensorId window(std::string_view op, std::int64_t size, const WindowOptions& options);

  Builder& b_;
};

}  // namespace sluice

#pragma GCC visibility pop
