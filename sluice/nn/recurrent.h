// Recurrent layers with PyTorch's parameters, names and order of gates. LSTM, GRU and RNN run whole
// sequences through several layers, in one direction or two; LstmCell is one step of an LSTM. From
// 16 steps on a direction of a layer is one loop, whose body is compiled once.
#pragma once

#include <cstdint>

#include "sluice/nn/control.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/module.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

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
  enum class Cell : std::uint8_t { Lstm, Gru, Tanh, Relu };
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
  std::int64_t gates() const;
  RecurrentOutput apply(const Tensor& x, const RecurrentState& state);
  struct DirectionOutput {
    Tensor output;
    RecurrentState last;
  };
  DirectionOutput direction(const Tensor& x, std::size_t index, const RecurrentState& start);
  RecurrentState step(const Tensor& fromInput,
                      const Tensor& fromHidden,
                      const RecurrentState& state) const;
  RecurrentState start(const RecurrentState& given, std::size_t index, std::int64_t batch) const;
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

enum class Nonlinearity : std::uint8_t { Tanh, Relu };

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
