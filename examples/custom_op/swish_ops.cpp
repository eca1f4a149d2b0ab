// A library with one custom op, Swish: x * sigmoid(beta * x), and its gradient. It needs a header
// of Sluice and nothing to link:
//
//   g++ -std=c++20 -O2 -shared -fPIC swish_ops.cpp -o swish_ops.so
#include <cmath>

#include "sluice/custom/op.h"

namespace {

using namespace sluice::custom;

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

std::vector<TensorType> types(const Call& call) {
  return {call.input(0).type()};
}

void forward(const Call& call) {
  const float beta = call.real("beta");
  const auto x = call.input(0).values<float>();
  const auto y = call.output(0).write<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] * sigmoid(beta * x[i]);
  }
}

void backward(const BackwardCall& call) {
  const float beta = call.real("beta");
  const auto x = call.input(0).values<float>();
  const auto dy = call.outputGrad(0).values<float>();
  const auto dx = call.inputGrad(0).write<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float s = sigmoid(beta * x[i]);
    dx[i] = dy[i] * (s + beta * x[i] * s * (1 - s));
  }
}

}  // namespace

SLUICE_CUSTOM_OPS(Op("com.example", "Swish", 1)
                      .attribute("beta", 1.0)
                      .infer(types)
                      .forward(forward)
                      .backward(backward)
                      .backwardReads({0}, {})  // the input alone is kept until then
                      .flopsPerElement(8))
