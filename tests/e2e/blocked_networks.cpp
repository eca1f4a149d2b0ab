#include "tests/e2e/blocked_networks.h"

namespace sluice::testing {

using nn::Block;
using nn::Tensor;

std::pair<Tensor, Tensor> BlockedCnn::forward(Tensor x, Tensor labels) {
  {
    const Block b("b0");
    x = nn::relu(nn::maxPool2d(conv1(x), 2));
  }
  {
    const Block b("b1");
    x = nn::relu(nn::maxPool2d(conv2(x), 2));
  }
  {
    const Block b("b2");
    x = nn::relu(fc1(nn::flatten(x, 1)));
  }
  {
    const Block b("b3");
    x = fc2(x);
  }
  const Block b("b4");
  return {x, nn::crossEntropy(x, labels)};
}

std::pair<Tensor, Tensor> ResidualMlp::forward(Tensor x, Tensor labels) {
  Tensor y = x;
  {
    const Block b("b0");
    y = nn::tanh(first(x));
  }
  Tensor early = y;
  {
    const Block b("b1");
    y = y + nn::relu(tied(y));
  }
  {
    const Block b("b2");
    y = y + dropout(nn::gelu(middle(y)));
  }
  {
    const Block b("b3");
    y = early + nn::relu(tied(y)) + skip(x);
  }
  const Block b("b4");
  y = last(dropout(y));
  return {y, nn::crossEntropy(y, labels)};
}

std::pair<Tensor, Tensor> Towers::forward(Tensor x, Tensor labels) {
  Tensor y = x;
  {
    const Block b("b0");
    y = nn::tanh(first(x));
  }
  Tensor early = x;
  {
    const Block b("b1");
    early = norm(nn::relu(side(x)));
  }
  Tensor u = y;
  {
    const Block b("b2");
    u = nn::relu(left(nn::sigmoid(y) * y));
  }
  Tensor v = y;
  {
    const Block b("b3");
    v = y + dropout(nn::gelu(right(y)));
  }
  {
    const Block b("b4");
    y = nn::concat({u + early, v}, 1);
  }
  const Block b("b5");
  y = last(y);
  return {y, nn::crossEntropy(y, labels)};
}

std::pair<Tensor, Tensor> BlockedGpt::forward(Tensor ids, Tensor targets) {
  Tensor x = ids;
  {
    const Block b("b0");
    x = tokens(ids);
  }
  {
    const Block b("b1");
    x = layer1(x);
  }
  {
    const Block b("b2");
    const std::vector<std::int64_t> shape = x.shape().dims();
    x = nn::reshape(norm(nn::reshape(x, {-1, 8})), shape);
  }
  {
    const Block b("b3");
    x = dropout(layer2(x));
  }
  const Block b("b4");
  const Tensor logits = nn::matmul(nn::reshape(x, {-1, 8}), nn::transpose(tokens.weight, 0, 1));
  return {logits, nn::crossEntropy(logits, nn::flatten(targets))};
}

}  // namespace sluice::testing
