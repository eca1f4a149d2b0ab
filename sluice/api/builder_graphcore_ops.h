// AiGraphcore, an op set of a Builder: the ops of PopART's own domain. builder.h includes this
// file; errors are as those of AiOnnx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/api/builder_op_options.h"
#include "sluice/ir/attrs.h"

namespace sluice {

class Builder;

/// Graphcore's own ops.
class AiGraphcore {
 public:
  explicit AiGraphcore(Builder& builder) : b_(builder) {}
  using Ints = std::vector<std::int64_t>;
  using Ids = std::vector<TensorId>;

  /// Any op of the domain ai.graphcore, as AiOnnx::node.
  Ids node(std::string_view op,
           const Ids& inputs,
           std::vector<ir::NamedAttr> attrs = {},
           std::size_t outputs = 1);

  // Element by element.
  /// The angle of (x, y): y is the first operand, as in C.
  TensorId atan2(const TensorId& y, const TensorId& x);
  TensorId bitwiseand(const TensorId& x, const TensorId& y);
  TensorId bitwisenot(const TensorId& x);
  TensorId bitwiseor(const TensorId& x, const TensorId& y);
  TensorId bitwisexnor(const TensorId& x, const TensorId& y);
  TensorId bitwisexor(const TensorId& x, const TensorId& y);
  /// 8-bit floats (u8; from FLOAT8_143 or FLOAT8_152) as FLOAT or FLOAT16, times 2^log2Scale.
  TensorId castthenpow2scale(const TensorId& x,
                             const TensorId& log2Scale,
                             std::string_view to = "FLOAT",
                             std::string_view from = "FLOAT8_143");
  TensorId detach(const TensorId& x);
  TensorId expm1(const TensorId& x);
  /// The sign is that of x.
  TensorId fmod(const TensorId& x, const TensorId& y);
  /// By tanh; geluerf is by the error function.
  TensorId gelu(const TensorId& x);
  TensorId geluerf(const TensorId& x);
  /// (x + increment) mod modulus.
  TensorId incrementmod(const TensorId& x, double increment, double modulus);
  TensorId log1p(const TensorId& x);
  TensorId nop(const TensorId& x);
  /// x 2^log2Scale as 8-bit floats in a u8 tensor. What is too large becomes the largest number.
  TensorId pow2scalethencast(const TensorId& x,
                             const TensorId& log2Scale,
                             std::string_view to = "FLOAT8_143");
  /// The sign is that of y.
  TensorId remainder(const TensorId& x, const TensorId& y);
  TensorId round(const TensorId& x);
  TensorId scale(const TensorId& x, double factor);
  /// scaleX x + scaleY y.
  TensorId scaledadd(const TensorId& x, const TensorId& y, double scaleX = 1, double scaleY = 1);
  TensorId square(const TensorId& x);
  TensorId swish(const TensorId& x);
  /// x itself; only the vendor's memory layout would differ.
  TensorId tensorremap(const TensorId& x);

  // What a run does besides.
  /// Stops the run with a DeviceError: always, or if an element of the condition is not 0.
  void abort(const TensorId& condition = "");
  /// x itself; every run logs it. Dropped when nobody reads the result.
  TensorId printtensor(const TensorId& x, const ops::PrintOptions& options = {});

  // Between a device and its host.
  /// An input that is fed for every micro-batch.
  TensorId hostload(const TensorType& type, const std::string& stream);
  /// An output under this name.
  void hoststore(const TensorId& x, const std::string& stream);
  /// What was stored in a row of a buffer that the model keeps from run to run, first zeros.
  TensorId remoteload(const ops::RemoteBuffer& buffer,
                      const TensorType& type,
                      const TensorId& offset = "");
  void remotestore(const ops::RemoteBuffer& buffer, const TensorId& x, const TensorId& offset = "");

  // Between replicas; the model must be run with as many of them as is said.
  /// Reduced over all replicas, in their order. Operators but Add and Local need their number.
  TensorId replicatedallreduce(const TensorId& x,
                               CollectiveOperator op = CollectiveOperator::Add,
                               std::int64_t replicas = 0);
  /// The elements of x of all replicas, as a vector.
  TensorId replicatedallgather(const TensorId& x, std::int64_t replicas);
  /// A replica's part of the reduced elements, as a vector: one of as many equal runs as there are
  /// replicas, the last ones padded with zeros. Of Add, Mean and SquareAdd.
  TensorId replicatedreducescatter(const TensorId& x,
                                   std::int64_t replicas,
                                   CollectiveOperator op = CollectiveOperator::Add);

  // Graphs in graphs.
  /// The results of another Builder's graph on these inputs; it may have no weights of its own.
  Ids call(const Ids& inputs, const Builder& callee);
  /// Packed sequences padded to [sequences, steps, ...], passed to the callback some at a time, its
  /// result packed again. The operands are data, offsets and lengths for each input of the
  /// callback, then offsets and lengths of the results.
  TensorId packeddatablock(const Ids& operands,
                           const PackedDataBlockOptions& options,
                           const Builder& callback);

  // Normalization, convolution and losses.
  /// The result or, in training, also both new running statistics and both of the batch.
  Ids batchnormalization(const TensorId& x,
                         const BatchNormTensors& tensors,
                         const VendorBatchNormOptions& options = {});
  /// Per batch item the most likely label sequences: probabilities, lengths, labels.
  Ids ctcbeamsearchdecoder(const TensorId& logProbabilities,
                           const TensorId& lengths,
                           const ops::CtcDecoderOptions& options = {});
  TensorId ctcloss(const TensorId& logProbabilities,
                   const CtcTensors& tensors,
                   const ops::CtcOptions& options = {});
  TensorId groupnormalization(const TensorId& x,
                              const TensorId& scale,
                              const TensorId& bias,
                              std::int64_t groups,
                              double epsilon = 1e-5);
  TensorId identityloss(const TensorId& x, ops::Reduction reduction = ops::Reduction::Mean);
  /// lambda |x|, reduced.
  TensorId l1loss(const TensorId& x,
                  double lambda = 1.0,
                  ops::Reduction reduction = ops::Reduction::Mean);
  /// Convolutions side by side.
  Ids multiconv(const std::vector<MultiConvPart>& parts);
  /// Dropout by a mask of this shape, which is broadcast to x.
  TensorId shapeddropout(const TensorId& x, const Ints& shape, double ratio = 0.5);
  /// The basis and the indices of the weights, both [edges, products].
  Ids splinebasis(const TensorId& pseudo,
                  const TensorId& kernelSize,
                  const TensorId& isOpen,
                  std::int64_t degree = 1);
  TensorId splineweighting(const TensorId& x,
                           const TensorId& weight,
                           const TensorId& basis,
                           const TensorId& indices);
  TensorId nllloss(const TensorId& probabilities,
                   const TensorId& labels,
                   const NllLossOptions& options = {});

  // Moving, picking and counting elements.
  /// Per element in which of the intervals between the boundaries it lies.
  TensorId bucketize(const TensorId& x, const TensorId& boundaries, bool right = false);
  TensorId dynamicadd(const TensorId& x,
                      const TensorId& offset,
                      const TensorId& values,
                      const DynamicBlock& block);
  TensorId dynamicslice(const TensorId& x, const TensorId& offset, const DynamicBlock& block);
  TensorId dynamicupdate(const TensorId& x,
                         const TensorId& offset,
                         const TensorId& values,
                         const DynamicBlock& block);
  TensorId dynamiczero(const TensorId& x, const TensorId& offset, const DynamicBlock& block);
  TensorId histogram(const TensorId& x,
                     const std::vector<double>& levels,
                     bool absoluteOfInput = false);
  TensorId init(const TensorType& type);
  TensorId reshape(const TensorId& x, const Ints& shape);
  TensorId reverse(const TensorId& x, const Ints& dimensions);
  TensorId scatterreduce(const TensorId& x,
                         const TensorId& indices,
                         const ScatterReduceOptions& options);
  TensorId sequenceslice(const TensorId& source,
                         const TensorId& destination,
                         const SequenceSliceTensors& tensors,
                         bool zeroUnused = false);
  /// The sorted values and where they come from.
  Ids sort(const TensorId& x, std::int64_t axis = -1, bool descending = false);
  TensorId subsample(const TensorId& x, const Ints& strides);
  TensorId zeros(const TensorType& type);
  TensorId zeroslike(const TensorId& x);

 private:
  TensorId one(std::string_view op,
               const std::vector<OpOperand>& inputs,
               std::vector<ir::NamedAttr> attrs = {});

  Builder& b_;
};

}  // namespace sluice
