// AiGraphcore, an op set of a Builder: the ops of PopART's own domain, ai.graphcore. builder.h
// includes this file. Errors are the same as those of AiOnnx.
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

  /// Any op of the domain ai.graphcore; otherwise the same as AiOnnx::node.
  Ids node(std::string_view op,
           const Ids& inputs,
           std::vector<ir::NamedAttr> attrs = {},
           std::size_t outputs = 1);

  // Element-wise ops.
  /// The angle of the point (x, y). As in C, y is the first operand.
  TensorId atan2(const TensorId& y, const TensorId& x);
  TensorId bitwiseand(const TensorId& x, const TensorId& y);
  TensorId bitwisenot(const TensorId& x);
  TensorId bitwiseor(const TensorId& x, const TensorId& y);
  TensorId bitwisexnor(const TensorId& x, const TensorId& y);
  TensorId bitwisexor(const TensorId& x, const TensorId& y);
  /// Converts 8-bit floats in a u8 tensor (`from` is FLOAT8_143 or FLOAT8_152) to FLOAT or FLOAT16
  /// and multiplies them by 2^log2Scale.
  TensorId castthenpow2scale(const TensorId& x,
                             const TensorId& log2Scale,
                             std::string_view to = "FLOAT",
                             std::string_view from = "FLOAT8_143");
  TensorId detach(const TensorId& x);
  TensorId expm1(const TensorId& x);
  /// The result has the sign of x.
  TensorId fmod(const TensorId& x, const TensorId& y);
  /// Uses the tanh approximation; geluerf uses the error function.
  TensorId gelu(const TensorId& x);
  TensorId geluerf(const TensorId& x);
  /// (x + increment) mod modulus.
  TensorId incrementmod(const TensorId& x, double increment, double modulus);
  TensorId log1p(const TensorId& x);
  TensorId nop(const TensorId& x);
  /// x 2^log2Scale as 8-bit floats in a u8 tensor. A value that is too large becomes the largest
  /// number.
  TensorId pow2scalethencast(const TensorId& x,
                             const TensorId& log2Scale,
                             std::string_view to = "FLOAT8_143");
  /// The result has the sign of y.
  TensorId remainder(const TensorId& x, const TensorId& y);
  TensorId round(const TensorId& x);
  TensorId scale(const TensorId& x, double factor);
  /// scaleX x + scaleY y.
  TensorId scaledadd(const TensorId& x, const TensorId& y, double scaleX = 1, double scaleY = 1);
  TensorId square(const TensorId& x);
  TensorId swish(const TensorId& x);
  /// Returns x unchanged: on the vendor's devices only the memory layout would differ.
  TensorId tensorremap(const TensorId& x);

  // Effects of a run.
  /// Stops the run with a DeviceError: always if there is no condition, else if one of its elements
  /// is not 0.
  void abort(const TensorId& condition = "");
  /// Returns x unchanged, and every run logs it. The op is dropped if its result is not used.
  TensorId printtensor(const TensorId& x, const ops::PrintOptions& options = {});

  // Between a device and its host.
  /// An input that the host feeds for every micro-batch.
  TensorId hostload(const TensorType& type, const std::string& stream);
  /// Makes x an output under this name.
  void hoststore(const TensorId& x, const std::string& stream);
  /// The contents of a row of a buffer that the model keeps from run to run; zeros until something
  /// is stored in it.
  TensorId remoteload(const ops::RemoteBuffer& buffer,
                      const TensorType& type,
                      const TensorId& offset = "");
  void remotestore(const ops::RemoteBuffer& buffer, const TensorId& x, const TensorId& offset = "");

  // Between replicas. The model must run with the number of replicas that is given here.
  /// Reduces x over all replicas, in their order. All operators except Add and Local need the
  /// number of replicas.
  TensorId replicatedallreduce(const TensorId& x,
                               CollectiveOperator op = CollectiveOperator::Add,
                               std::int64_t replicas = 0);
  /// The elements of x from all replicas, as a vector.
  TensorId replicatedallgather(const TensorId& x, std::int64_t replicas);
  /// This replica's part of the reduced elements, as a vector. There are as many parts as replicas;
  /// all have the same length, and the end is padded with zeros. The operator is Add, Mean or
  /// SquareAdd.
  TensorId replicatedreducescatter(const TensorId& x,
                                   std::int64_t replicas,
                                   CollectiveOperator op = CollectiveOperator::Add);

  // Graphs inside graphs.
  /// The results of another Builder's graph for these inputs. That graph must not have weights.
  Ids call(const Ids& inputs, const Builder& callee);
  /// Pads packed sequences to [sequences, steps, ...], passes them to the callback a few at a time,
  /// and packs its results again. The operands are the data, offsets and lengths for each input of
  /// the callback, then the offsets and lengths of the results.
  TensorId packeddatablock(const Ids& operands,
                           const PackedDataBlockOptions& options,
                           const Builder& callback);

  // Normalization, convolution and losses.
  /// The result. In training also the two new running statistics, then the batch's own two.
  Ids batchnormalization(const TensorId& x,
                         const BatchNormTensors& tensors,
                         const VendorBatchNormOptions& options = {});
  /// The most likely label sequences of each batch item: their probabilities, lengths and labels.
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
  /// Independent convolutions; returns one result for each.
  Ids multiconv(const std::vector<MultiConvPart>& parts);
  /// Dropout with a mask of this shape, which is broadcast to x.
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
  /// The number of the interval between the boundaries in which each element lies.
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
  /// The sorted values and the indices that they had before.
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
