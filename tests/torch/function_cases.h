// Functions and layers of nn, each with the expression that computes the same in PyTorch.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sluice/sluice.h"

namespace sluice::testing {

using List = std::vector<nn::Tensor>;
using Call = std::function<nn::Tensor(const List&)>;

struct FunctionCase {
  std::string call;                ///< of x0, x1 ... and of the module m
  std::vector<HostTensor> inputs;  ///< float32 ones get gradients
  /// Makes what is called; layers become children "m" of the module.
  std::function<Call(nn::Module&)> make;
  std::string module = {};  ///< makes PyTorch's module; empty: there is none
  bool gradient = true;
  double tolerance = 5e-5;
};

/// A function without a module.
inline std::function<Call(nn::Module&)> plain(Call call) {
  return [call = std::move(call)](nn::Module&) { return call; };
}

/// Numbers in [low, high), others for each call.
HostTensor numbers(const Shape& shape, double low = -1.0, double high = 1.0);

std::vector<FunctionCase> elementwiseCases();
std::vector<FunctionCase> shapeCases();
std::vector<FunctionCase> imageCases();
std::vector<FunctionCase> lossCases();
std::vector<FunctionCase> layerCases();

}  // namespace sluice::testing
