// Layers over sequences: attention, transformers, recurrent cells.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/nn/functional.h"
#include "sluice/nn/helpers.h"
#include "sluice/nn/layers.h"
#include "sluice/nn/module.h"
#include "sluice/nn/norm.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

// MultiHeadAttention over sequences [batch, length, embedding], with the parameters of PyTorch's
// module of that name: "in_proj_weight" (the rows for queries, then keys, then values),
// "in_proj_bias" and the layer "out_proj".

struct MultiHeadOptions {
  bool causal = false;  ///< position i sees only positions 0 to i
  bool bias = true;
  DType dtype = DType::F32;
};

/// Attention over [batch, length, embedding]. Its masks keep where they are true; see also
/// MultiheadAttention.
class MultiHeadAttention : public Layer {
 public:
  MultiHeadAttention(Module& parent,
                     std::string name,
                     std::int64_t embedding,
                     std::int64_t heads,
                     MultiHeadOptions options = {});
  std::string kind() const override { return "MultiHeadAttention"; }
  /// Self-attention.
  Tensor forward(const Tensor& x) override;
  /// Attention from each position of `query` to all positions of `key` and `value`. The mask, if
  /// any, is broadcast to [batch, heads, query length, key length]. A bool mask keeps the positions
  /// where it is true; a float mask is added.
  Tensor attend(const Tensor& query,
                const Tensor& key,
                const Tensor& value,
                const Tensor& mask = {});

  Parameter& inProjWeight;  ///< [3 embedding, embedding]
  Parameter* inProjBias;    ///< [3 embedding] or null
  Linear outProj;

 private:
  void requireSequence(const Tensor& x, std::string_view what) const;
  Tensor combine(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask);

  std::int64_t embedding_;
  std::int64_t heads_;
  bool causal_;
};

// Attention and transformer layers with PyTorch's names and semantics: masks forbid where they are
// true, and sequences are [length, batch, features] unless batchFirst is set.

struct MultiheadAttentionOptions {
  double dropout = 0.0;  ///< of the attention weights, in training
  bool bias = true;
  std::optional<std::int64_t> kdim =
      {};  ///< features of keys and of values; not set: the embedding
  std::optional<std::int64_t> vdim = {};
  bool batchFirst = false;
  DType dtype = DType::F32;
};

/// All may be absent. A bool mask forbids where it is true; a float mask is added to the scores.
struct AttentionMasks {
  Tensor attention = {};   ///< [L, S] or [batch * heads, L, S]
  Tensor keyPadding = {};  ///< [batch, S], bool
  bool causal = false;     ///< position i sees only positions 0 to i
};

struct AttentionResult {
  Tensor output;
  Tensor weights;  ///< [batch, L, S], the mean over the heads; only if asked for
};

/// PyTorch's attention. Parameters: "in_proj_weight" (or "q_proj_weight", "k_proj_weight" and
/// "v_proj_weight" if kdim or vdim differs), "in_proj_bias" and "out_proj".
class MultiheadAttention : public Module {
 public:
  MultiheadAttention(Module& parent,
                     std::string name,
                     std::int64_t embedding,
                     std::int64_t heads,
                     MultiheadAttentionOptions options = {});
  std::string kind() const override { return "MultiheadAttention"; }
  AttentionResult operator()(const Tensor& query,
                             const Tensor& key,
                             const Tensor& value,
                             const AttentionMasks& masks = {},
                             bool needWeights = false);

 private:
  std::vector<Tensor> project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor combinedMask(const AttentionMasks& masks, const Shape& scores) const;
  AttentionResult weighted(const std::vector<Tensor>& parts, const Tensor& mask, bool needWeights);
  void requireSequence(const Tensor& x, std::int64_t features, std::string_view what) const;

  std::int64_t embedding_;
  std::int64_t heads_;
  MultiheadAttentionOptions options_;
  Parameter* inProjWeight_ = nullptr;
  std::vector<Parameter*> projections_;  // of queries, keys and values, if they are separate
  Parameter* inProjBias_ = nullptr;
  Linear outProj_;
};

enum class TransformerActivation : std::uint8_t { Relu, Gelu };

struct TransformerLayerOptions {
  std::int64_t feedforward = 2048;
  double dropout = 0.1;
  TransformerActivation activation = TransformerActivation::Relu;
  double eps = 1e-5;
  bool batchFirst = false;
  bool normFirst = false;
  DType dtype = DType::F32;
};

/// What both transformer layers share: "self_attn", "linear1", "linear2" and the feed-forward part.
class TransformerLayer : public Layer {
 protected:
  TransformerLayer(Module& parent,
                   std::string name,
                   std::int64_t embedding,
                   std::int64_t heads,
                   const TransformerLayerOptions& options);
  /// Adds a part of the layer to x, normalized before the part or after the sum.
  template <class Part>
  Tensor residual(const Tensor& x, LayerNorm& norm, Part part) {
    return normFirst_ ? x + part(norm(x)) : norm(x + part(x));
  }
  Tensor attend(MultiheadAttention& attention,
                const Tensor& query,
                const Tensor& memory,
                const AttentionMasks& masks);
  Tensor feedForward(const Tensor& x);

  MultiheadAttention selfAttention_;

 private:
  Linear linear1_;
  Linear linear2_;
  TransformerActivation activation_;
  double dropout_;
  bool normFirst_;
};

/// Self-attention and a feed-forward part. Also has "norm1" and "norm2".
class TransformerEncoderLayer : public TransformerLayer {
 public:
  TransformerEncoderLayer(Module& parent,
                          std::string name,
                          std::int64_t embedding,
                          std::int64_t heads,
                          TransformerLayerOptions options = {});
  std::string kind() const override { return "TransformerEncoderLayer"; }
  Tensor forward(const Tensor& x) override { return encode(x, {}); }
  Tensor operator()(const Tensor& x, const AttentionMasks& masks);
  using Layer::operator();

 private:
  Tensor encode(const Tensor& x, const AttentionMasks& masks);

  LayerNorm norm1_;
  LayerNorm norm2_;
};

struct DecoderMasks {
  AttentionMasks target = {};
  AttentionMasks memory = {};
};

/// The same with attention to a memory. Also has "multihead_attn", which reads the memory, and
/// "norm1" to "norm3".
class TransformerDecoderLayer : public TransformerLayer {
 public:
  TransformerDecoderLayer(Module& parent,
                          std::string name,
                          std::int64_t embedding,
                          std::int64_t heads,
                          TransformerLayerOptions options = {});
  std::string kind() const override { return "TransformerDecoderLayer"; }
  /// Throws InvalidArgument: a decoder layer needs a memory.
  Tensor forward(const Tensor& x) override;
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {});

 private:
  MultiheadAttention memoryAttention_;
  LayerNorm norm1_;
  LayerNorm norm2_;
  LayerNorm norm3_;
};

struct TransformerStackOptions {
  TransformerLayerOptions layer = {};
  bool norm = false;  ///< a last normalization, "norm"
};

/// Encoder layers one after the other: "layers.0", "layers.1", ...
class TransformerEncoder : public Layer {
 public:
  TransformerEncoder(Module& parent,
                     std::string name,
                     std::int64_t numLayers,
                     std::int64_t embedding,
                     std::int64_t heads,
                     const TransformerStackOptions& options = {});
  std::string kind() const override { return "TransformerEncoder"; }
  Tensor forward(const Tensor& x) override { return encode(x, {}); }
  /// The masks are those of every layer.
  Tensor operator()(const Tensor& x, const AttentionMasks& masks);
  using Layer::operator();
  std::size_t size() const { return layers_.size(); }
  TransformerEncoderLayer& operator[](std::size_t i) { return layers_[i]; }

 private:
  Tensor encode(const Tensor& x, const AttentionMasks& masks);

  ModuleList<TransformerEncoderLayer> layers_;
  std::optional<LayerNorm> norm_;
};

/// Decoder layers one after the other, which all read the same memory.
class TransformerDecoder : public Layer {
 public:
  TransformerDecoder(Module& parent,
                     std::string name,
                     std::int64_t numLayers,
                     std::int64_t embedding,
                     std::int64_t heads,
                     const TransformerStackOptions& options = {});
  std::string kind() const override { return "TransformerDecoder"; }
  /// Throws InvalidArgument: a decoder needs a memory.
  Tensor forward(const Tensor& x) override;
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {});
  std::size_t size() const { return layers_.size(); }
  TransformerDecoderLayer& operator[](std::size_t i) { return layers_[i]; }

 private:
  ModuleList<TransformerDecoderLayer> layers_;
  std::optional<LayerNorm> norm_;
};

struct RotaryOptions {
  double base = 10000.0;
  std::int64_t start = 0;    ///< the position of the first element
  bool interleaved = false;  ///< turns neighbours (0, 1), (2, 3) instead of the two halves
};
/// Turns pairs of features of x [..., length, size] by angles that grow with the position.
Tensor rotaryEmbedding(const Tensor& x, const RotaryOptions& options = {});

// Recurrent layers with PyTorch's parameters, names and order of gates. LSTM, GRU and RNN run whole
// sequences through several layers, in one direction or two; the cells are one step of one. From
// 16 steps on a direction of a layer is one loop, whose body is compiled once.

/// The equations of a step.
enum class RecurrentKind : std::uint8_t { Lstm, Gru, Tanh, Relu };
enum class Nonlinearity : std::uint8_t { Tanh, Relu };

struct LstmState {
  Tensor h;  ///< [batch, hidden]
  Tensor c;  ///< [batch, hidden]
};

struct LstmSequence {
  Tensor outputs;  ///< h of every step, [steps, batch, hidden]
  LstmState last;
};

struct LstmOptions {
  bool bias = true;
  DType dtype = DType::F32;
};

/// One step of an LSTM.
class LstmCell : public Module {
 public:
  LstmCell(Module& parent,
           std::string name,
           std::int64_t inputSize,
           std::int64_t hiddenSize,
           LstmOptions options = {});
  std::string kind() const override { return "LstmCell"; }

  /// x is [batch, input].
  LstmState operator()(const Tensor& x, const LstmState& state);
  /// Applies the cell to each step of x, [steps, batch, input]. From 16 steps on this is one loop,
  /// whose body is compiled once.
  LstmSequence sequence(const Tensor& x, const LstmState& state, const LoopOptions& options = {});
  /// Zeros for a batch of this size.
  LstmState zeroState(std::int64_t batch) const;

  Parameter& weightIh;  ///< "weight_ih" [4 hidden, input]
  Parameter& weightHh;  ///< "weight_hh" [4 hidden, hidden]
  Parameter* biasIh;    ///< "bias_ih" [4 hidden] or null
  Parameter* biasHh;    ///< "bias_hh" [4 hidden] or null

 private:
  void requireFits(const Tensor& x, const LstmState& state) const;

  std::int64_t hidden_;
};

/// PyTorch's name of it.
using LSTMCell = LstmCell;

struct CellOptions {
  bool bias = true;
  DType dtype = DType::F32;
};

/// What GRUCell and RNNCell share: "weight_ih", "weight_hh", "bias_ih" and "bias_hh".
class RecurrentCell : public Module {
 public:
  /// x is [batch, input], the state [batch, hidden]; one that is not given is zeros. Returns the
  /// next state.
  Tensor operator()(const Tensor& x, const Tensor& state = {});

  Parameter& weightIh;  ///< [gates * hidden, input]
  Parameter& weightHh;  ///< [gates * hidden, hidden]
  Parameter* biasIh;    ///< [gates * hidden] or null
  Parameter* biasHh;    ///< [gates * hidden] or null

 protected:
  RecurrentCell(Module& parent,
                std::string name,
                RecurrentKind cell,
                std::int64_t inputSize,
                std::int64_t hiddenSize,
                CellOptions options);

 private:
  RecurrentKind cell_;
  std::int64_t hidden_;
};

/// One step of a GRU. Gates: reset, update, new.
class GRUCell : public RecurrentCell {
 public:
  GRUCell(Module& parent,
          std::string name,
          std::int64_t inputSize,
          std::int64_t hiddenSize,
          CellOptions options = {})
      : RecurrentCell(parent, std::move(name), RecurrentKind::Gru, inputSize, hiddenSize, options) {
  }
  std::string kind() const override { return "GRUCell"; }
};

/// One step of an RNN.
class RNNCell : public RecurrentCell {
 public:
  RNNCell(Module& parent,
          std::string name,
          std::int64_t inputSize,
          std::int64_t hiddenSize,
          CellOptions options = {},
          Nonlinearity nonlinearity = Nonlinearity::Tanh)
      : RecurrentCell(
            parent,
            std::move(name),
            nonlinearity == Nonlinearity::Tanh ? RecurrentKind::Tanh : RecurrentKind::Relu,
            inputSize,
            hiddenSize,
            options) {}
  std::string kind() const override { return "RNNCell"; }
};

struct RecurrentOptions {
  std::int64_t numLayers = 1;
  bool bias = true;
  bool batchFirst = false;  ///< x and the output are [batch, steps, ...]
  double dropout = 0.0;     ///< of the output of each layer but the last, in training
  bool bidirectional = false;
  DType dtype = DType::F32;
};

/// States are [layers * directions, batch, hidden]; a layer's backward direction follows its
/// forward one.
struct RecurrentState {
  Tensor h = {};
  Tensor c = {};  ///< of an LSTM
};

struct RecurrentOutput {
  Tensor output;  ///< of the last layer, for every step: [steps, batch, directions * hidden]
  std::vector<Tensor> h;       ///< after the last step, of each layer and direction
  std::vector<Tensor> c = {};  ///< the same of an LSTM's cell state
  /// The states joined, for the next sequence. A function, because a block may not hold ops whose
  /// results nobody uses.
  RecurrentState last() const;
};

/// What LSTM, GRU and RNN share. The parameters of layer k are "weight_ih_lk", "weight_hh_lk",
/// "bias_ih_lk" and "bias_hh_lk"; those of the backward direction end in "_reverse".
class Recurrent : public Layer {
 public:
  /// x is [steps, batch, input]. A state that is not given is zeros.
  RecurrentOutput operator()(const Tensor& x, const RecurrentState& state);
  using Layer::operator();
  /// The output alone.
  Tensor forward(const Tensor& x) override;

 protected:
  using Cell = RecurrentKind;
  Recurrent(Module& parent,
            std::string name,
            Cell cell,
            std::int64_t inputSize,
            std::int64_t hiddenSize,
            RecurrentOptions options);
  Cell cell() const { return cell_; }

 private:
  /// The weights of a layer in one direction; biases are null or not.
  struct Direction {
    Parameter* weightIh;
    Parameter* weightHh;
    Parameter* biasIh;
    Parameter* biasHh;
  };
  RecurrentOutput apply(const Tensor& x, const RecurrentState& state);
  struct DirectionOutput {
    Tensor output;
    RecurrentState last;
  };
  DirectionOutput direction(const Tensor& x, std::size_t index, const RecurrentState& start);
  /// The row of the given states, or zeros, in the type of the steps.
  RecurrentState start(const RecurrentState& given,
                       std::size_t index,
                       const Tensor& fromInputs) const;
  void requireFits(const Tensor& x, const RecurrentState& state) const;

  Cell cell_;
  std::int64_t hidden_;
  RecurrentOptions options_;
  std::vector<Direction> directions_;
};

/// A long short-term memory. Gates: input, forget, cell, output.
class LSTM : public Recurrent {
 public:
  LSTM(Module& parent,
       std::string name,
       std::int64_t inputSize,
       std::int64_t hiddenSize,
       RecurrentOptions options = {})
      : Recurrent(parent, std::move(name), Cell::Lstm, inputSize, hiddenSize, options) {}
  std::string kind() const override { return "LSTM"; }
};

/// A gated recurrent unit. Gates: reset, update, new.
class GRU : public Recurrent {
 public:
  GRU(Module& parent,
      std::string name,
      std::int64_t inputSize,
      std::int64_t hiddenSize,
      RecurrentOptions options = {})
      : Recurrent(parent, std::move(name), Cell::Gru, inputSize, hiddenSize, options) {}
  std::string kind() const override { return "GRU"; }
};

/// tanh or relu of the products and biases.
class RNN : public Recurrent {
 public:
  RNN(Module& parent,
      std::string name,
      std::int64_t inputSize,
      std::int64_t hiddenSize,
      RecurrentOptions options = {},
      Nonlinearity nonlinearity = Nonlinearity::Tanh)
      : Recurrent(parent,
                  std::move(name),
                  nonlinearity == Nonlinearity::Tanh ? Cell::Tanh : Cell::Relu,
                  inputSize,
                  hiddenSize,
                  options) {}
  std::string kind() const override { return "RNN"; }
};

}  // namespace sluice::nn

#pragma GCC visibility pop
