// One step of LSTM, GRU and RNN as ops. import_recurrent.cpp runs them over a sequence.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "sluice/onnx/node.h"
#include "sluice/onnx/recurrent_activation.h"

namespace sluice::onnx {

struct RecurrentState {
  Value h;
  Value c;  ///< for an LSTM only
};

/// One direction's share of the operands.
struct RecurrentWeights {
  Value x;         ///< [gates * hidden, input]
  Value h;         ///< [gates * hidden, hidden]
  Value xBias;     ///< [gates * hidden]; invalid if the node has no bias
  Value hBias;     ///< the same
  Value peephole;  ///< [3 * hidden] or invalid
  std::span<const RecurrentActivation> activations;
};

struct RecurrentDims {
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t inputs = 0;
  std::int64_t hidden = 0;
  std::int64_t gates = 0;
  std::int64_t directions = 1;
  bool batchFirst = false;
  bool reverse = false;  ///< the only direction starts at the end
};

/// The next state from the projected input of one step, [batch, gates * hidden].
using RecurrentCell = std::function<RecurrentState(Value projected, const RecurrentState& state)>;

RecurrentCell gruCell(Node& node, const RecurrentDims& dims, const RecurrentWeights& weights);
RecurrentCell lstmCell(Node& node, const RecurrentDims& dims, const RecurrentWeights& weights);
RecurrentCell rnnCell(Node& node, const RecurrentDims& dims, const RecurrentWeights& weights);

}  // namespace sluice::onnx
