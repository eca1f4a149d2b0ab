// LstmCell: an LSTM with PyTorch's parameters and gate order (input, forget, cell, output), for one
// time step or for a sequence.
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

}  // namespace sluice::nn

#pragma GCC visibility pop
