// One step of a recurrent layer, for cells and for whole sequences. Private to the module.
#pragma once

#include <cstdint>

#include "sluice/nn/sequence.h"

namespace sluice::nn {

/// Rows of the weights per hidden feature.
constexpr std::int64_t gatesOf(RecurrentKind cell) {
  return cell == RecurrentKind::Lstm ? 4 : cell == RecurrentKind::Gru ? 3 : 1;
}

/// The parameter, or no tensor for null.
Tensor orNone(const Parameter* parameter);

/// The next state from the products of the input and of the hidden state, each with its bias.
RecurrentState recurrentStep(RecurrentKind cell,
                             const Tensor& fromInput,
                             const Tensor& fromHidden,
                             const RecurrentState& state);

}  // namespace sluice::nn
