// AiGraphcore, an op set of a Builder: the ops of PopART's own domain, ai.graphcore. builder.h
// includes this file. Errors are the same as those of AiOnnx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/frontends/popart/builder_op_options.h"
#include "sluice/ir/attrs.h"

#pragma GCC visibility push(default)

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

  // Ops that take tensors and nothing else.
  /// atan2(y, x), as in C: the first operand is the ordinate.
  SLUICE_BUILDER_OP_2(atan2, "Atan2");
  SLUICE_BUILDER_OP_2(bitwiseand, "BitwiseAnd");
  SLUICE_BUILDER_OP_1(bitwisenot, "BitwiseNot");
  SLUICE_BUILDER_OP_2(bitwiseor, "BitwiseOr");
  SLUICE_BUILDER_OP_2(bitwisexnor, "BitwiseXnor");
  SLUICE_BUILDER_OP_2(bitwisexor, "BitwiseXor");
  SLUICE_BUILDER_OP_1(expm1, "Expm1");
  /// The sign is that of x.
  SLUICE_BUILDER_OP_2(fmod, "Fmod");
  /// By tanh; geluerf is by the error function.
  SLUICE_BUILDER_OP_1(gelu, "Gelu");
  SLUICE_BUILDER_OP_1(geluerf, "GeluErf");
  SLUICE_BUILDER_OP_1(log1p, "Log1p");
  /// The sign is that of y.
  SLUICE_BUILDER_OP_2(remainder, "Remainder");
  SLUICE_BUILDER_OP_1(round, "Round");
  SLUICE_BUILDER_OP_1(square, "Square");
  SLUICE_BUILDER_OP_1(swish, "Swish");
  /// x itself; only the vendor's memory layout would differ.
  SLUICE_BUILDER_OP_1(tensorremap, "TensorRemap");
  SLUICE_BUILDER_OP_1(zeroslike, "ZerosLike");

  /// Converts 8-bit floats in a u8 tensor (`from` is FLOAT8_143 or FLOAT8_152) to FLOAT or FLOAT16
  /// and multiplies them by 2^log2Scale.
  TensorId castthenpow2scale(const TensorId& x,
                             const TensorId& log2Scale,
                             std::string_view to = "FLOAT",
                             std::string_view from = "FLOAT8_143");
  TensorId detach(const TensorId& x);
  /// (x + increment) mod modulus.
  TensorId incrementmod(const TensorId& x, double increment, double modulus);
  TensorId nop(const TensorId& x);
  /// x 2^log2Scale as 8-bit floats in a u8 tensor. A value that is too large becomes the largest
  /// number.
  TensorId pow2scalethencast(const TensorId& x,
                             const TensorId& log2Scale,
                             std::string_view to = "FLOAT8_143");
  TensorId scale(const TensorId& x, double factor);
  /// scaleX x + scaleY y.
  TensorId scaledadd(const TensorId& x, const TensorId& y, double scaleX = 1, double scaleY = 1);

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

  // The tensors of an op as a list. Throws InvalidArgument for another number of tensors.
  SLUICE_BUILDER_LIST(bucketize, 2);
  SLUICE_BUILDER_LIST(castthenpow2scale, 2);
  SLUICE_BUILDER_LIST_WITH(ctcbeamsearchdecoder, 2, ops::CtcDecoderOptions);
  SLUICE_BUILDER_LIST_WITH(dynamicadd, 3, DynamicBlock);
  SLUICE_BUILDER_LIST_WITH(dynamicslice, 2, DynamicBlock);
  SLUICE_BUILDER_LIST_WITH(dynamicupdate, 3, DynamicBlock);
  SLUICE_BUILDER_LIST_WITH(dynamiczero, 2, DynamicBlock);
  SLUICE_BUILDER_LIST(groupnormalization, 3);
  SLUICE_BUILDER_LIST_WITH(nllloss, 2, NllLossOptions);
  SLUICE_BUILDER_LIST(pow2scalethencast, 2);
  SLUICE_BUILDER_LIST(scaledadd, 2);
  SLUICE_BUILDER_LIST_WITH(scatterreduce, 2, ScatterReduceOptions);
  SLUICE_BUILDER_LIST(splinebasis, 3);
  SLUICE_BUILDER_LIST(splineweighting, 4);

 private:
  TensorId one(std::string_view op,
               const std::vector<OpOperand>& inputs,
               std::vector<ir::NamedAttr> attrs = {});

  Builder& b_;
};

}  // namespace sluice

#pragma GCC visibility pop
