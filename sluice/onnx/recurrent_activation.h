// The activation functions that recurrent ops name in their attribute `activations`, with the
// parameters from activation_alpha and activation_beta.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sluice/onnx/node.h"

namespace sluice::onnx {

struct RecurrentActivation {
  std::string name;
  double alpha = 0;
  double beta = 0;
  double clip = 0;  ///< limit on the operand's magnitude; 0: none

  Value operator()(ir::GraphBuilder& b, Value x) const;
};

/// The functions of all directions, one direction after the other; each has as many functions as
/// `defaults`. Throws InvalidArgument for a wrong count, and Unsupported for a name that the
/// standard does not have.
std::vector<RecurrentActivation> recurrentActivations(const Node& node,
                                                      std::size_t directions,
                                                      std::vector<std::string> defaults);

}  // namespace sluice::onnx
