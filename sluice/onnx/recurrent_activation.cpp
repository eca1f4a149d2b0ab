#include "sluice/onnx/recurrent_activation.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "sluice/base/error.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::onnx {
namespace {

/// Names are compared without case.
struct Known {
  std::string_view name;
  bool takesAlpha = false;
  bool takesBeta = false;
  double alpha = 0;
  double beta = 0;
};

constexpr std::array<Known, 11> kKnown = {{{"affine", true, true, 1.0, 0.0},
                                           {"elu", true, false, 1.0},
                                           {"hardsigmoid", true, true, 0.2, 0.5},
                                           {"leakyrelu", true, false, 0.01},
                                           {"relu"},
                                           {"scaledtanh", true, true, 1.0, 1.0},
                                           {"sigmoid"},
                                           {"softplus"},
                                           {"softsign"},
                                           {"tanh"},
                                           {"thresholdedrelu", true, false, 1.0}}};

const Known& find(std::string name) {
  std::ranges::transform(
      name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = std::ranges::find(kKnown, name, &Known::name);
  if (found == kKnown.end()) {
    raise<Unsupported>("activation '{}' is not supported", name);
  }
  return *found;
}

}  // namespace

Value RecurrentActivation::operator()(ir::GraphBuilder& b, Value x) const {
  if (clip > 0) {
    x = ops::clamp(b, x, -clip, clip);
  }
  const auto number = [&](double value) { return b.scalar(b.dtype(x), value); };
  const auto linear = [&] { return ops::add(b, ops::mul(b, x, number(alpha)), number(beta)); };
  if (name == "sigmoid") {
    return ops::sigmoid(b, x);
  }
  if (name == "tanh") {
    return ops::tanh(b, x);
  }
  if (name == "relu") {
    return ops::relu(b, x);
  }
  if (name == "affine") {
    return linear();
  }
  if (name == "elu") {
    return ops::elu(b, x, alpha);
  }
  if (name == "hardsigmoid") {
    return ops::clamp(b, linear(), 0.0, 1.0);
  }
  if (name == "leakyrelu") {
    return ops::leakyRelu(b, x, alpha);
  }
  if (name == "scaledtanh") {
    return ops::mul(b, ops::tanh(b, ops::mul(b, x, number(beta))), number(alpha));
  }
  if (name == "softplus") {
    return ops::softplus(b, x);
  }
  if (name == "softsign") {
    return ops::div(b, x, ops::add(b, ops::abs(b, x), number(1.0)));
  }
  SLUICE_CHECK(name == "thresholdedrelu", "activation {} has no ops", name);
  return ops::where(b, ops::greater(b, x, number(alpha)), x, number(0.0));
}

std::vector<RecurrentActivation> recurrentActivations(const Node& node,
                                                      std::size_t directions,
                                                      std::vector<std::string> defaults) {
  const std::size_t wanted = directions * defaults.size();
  std::vector<std::string> names = node.texts("activations");
  if (names.empty()) {
    names = defaults;
  }
  // The standard's own default of RNN has a name for a second direction even if there is none.
  const bool own = node.attrs().find("activations") != nullptr;
  for (std::size_t i = 0; names.size() < wanted && i < defaults.size() && !own; ++i) {
    names.push_back(defaults[i]);
  }
  if (names.size() < wanted || (own && names.size() != wanted)) {
    raise<InvalidArgument>("expected {} activations, got {}", wanted, names.size());
  }
  const std::vector<double> alphas = node.reals("activation_alpha");
  const std::vector<double> betas = node.reals("activation_beta");
  std::size_t nextAlpha = 0;
  std::size_t nextBeta = 0;
  std::vector<RecurrentActivation> functions;
  for (std::size_t i = 0; i < wanted; ++i) {
    const Known known = find(names[i]);
    RecurrentActivation function{.name = std::string(known.name),
                                 .alpha = known.alpha,
                                 .beta = known.beta,
                                 .clip = node.real("clip", 0.0)};
    if (known.takesAlpha && nextAlpha < alphas.size()) {
      function.alpha = alphas[nextAlpha++];
    }
    if (known.takesBeta && nextBeta < betas.size()) {
      function.beta = betas[nextBeta++];
    }
    functions.push_back(std::move(function));
  }
  return functions;
}

}  // namespace sluice::onnx
