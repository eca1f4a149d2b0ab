// The activation functions that the recurrent ops name in their attribute `activations`, with the
// numbers of activation_alpha and activation_beta.
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
  double clip = 0;  ///< bound of the operand's magnitude; 0: none

  Value operator()(ir::GraphBuilder& b, Value x) const;
};

/// The functions of all directions one after the other, as many for each as `defaults` has. Throws
/// InvalidArgument for a wrong count, Unsupported for a name that the standard has not.
std::vector<RecurrentActivation> recurrentActivations(const Node& node,
                                                      std::size_t directions,
                                                      std::vector<std::string> defaults);

}  // namespace sluice::onnx
