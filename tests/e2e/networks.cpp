#include "tests/e2e/networks.h"

#include "tests/support/random_tensor.h"

namespace sluice::testing {

namespace {

std::pair<nn::Tensor, nn::Tensor> classified(const nn::Tensor& logits, const nn::Tensor& labels) {
  return {logits, nn::crossEntropy(logits, labels)};
}

}  // namespace

std::pair<nn::Tensor, nn::Tensor> Mlp::forward(nn::Tensor x, nn::Tensor labels) {
  return classified(fc2(nn::tanh(fc1(x))), labels);
}

std::pair<nn::Tensor, nn::Tensor> Cnn::forward(nn::Tensor x, nn::Tensor labels) {
  x = nn::relu(norm(conv1(x)));
  x = nn::relu(x + conv2(x));
  return classified(fc(nn::flatten(nn::maxPool2d(x, 2), 1)), labels);
}

std::pair<nn::Tensor, nn::Tensor> Lstm::forward(nn::Tensor x, nn::Tensor labels) {
  const std::int64_t batch = x.shape()[0];
  nn::LstmState state = cell.zeroState(batch);
  for (std::int64_t t = 0; t < x.shape()[1]; ++t) {
    state = cell(nn::reshape(nn::slice(x, 1, t, t + 1), {batch, 5}), state);
  }
  return classified(fc(state.h), labels);
}

std::pair<nn::Tensor, nn::Tensor> Gpt::forward(nn::Tensor ids, nn::Tensor targets) {
  nn::Tensor x = tokens(ids);
  x = x + attention(norm1(x));
  x = x + dropout(down(nn::gelu(up(norm2(x)))));
  const nn::Tensor logits = head(x);
  const std::int64_t rows = logits.shape()[0] * logits.shape()[1];
  return {logits, nn::crossEntropy(nn::reshape(logits, {rows, 3}), nn::flatten(targets))};
}

std::pair<nn::Tensor, nn::Tensor> MnistNet::forward(nn::Tensor x, nn::Tensor labels) {
  x = nn::relu(nn::maxPool2d(conv1(x), 2));
  x = nn::relu(nn::maxPool2d(conv2(x), 2));
  return classified(fc2(nn::relu(fc1(nn::flatten(x, 1)))), labels);
}

std::pair<nn::Tensor, nn::Tensor> Line::forward(nn::Tensor x, nn::Tensor y) {
  const nn::Tensor prediction = fc(x);
  return {prediction, nn::mseLoss(prediction, y)};
}

std::vector<HostTensor> makeInputs(const std::vector<TensorType>& types,
                                   std::int64_t first,
                                   std::int64_t count) {
  std::vector<HostTensor> inputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool real = isFloat(types[i].dtype);
    std::vector<std::int64_t> dims = types[i].shape.dims();
    dims[0] *= count;
    HostTensor joined(types[i].dtype, Shape(std::move(dims)));
    for (std::int64_t m = 0; m < count; ++m) {
      const auto seed = static_cast<std::uint64_t>(100 * (first + m)) + i;
      const HostTensor part = randomTensor(seed, types[i], real ? -1 : 0, real ? 1 : 3);
      for (std::int64_t e = 0; e < part.shape().elements(); ++e) {
        joined.set(m * part.shape().elements() + e, part.at(e));
      }
    }
    inputs.push_back(std::move(joined));
  }
  return inputs;
}

std::string difference(const Bits& expected, const Bits& got) {
  std::string text;
  for (const auto& [name, hash] : expected) {
    const auto other = got.find(name);
    if (other == got.end() || other->second != hash) {
      text += name + " ";
    }
  }
  return text + (expected.size() == got.size() ? "" : "and their number");
}

Bits bitsOf(Session& session) {
  Bits bits;
  for (const program::PlacedVariable& placed : session.state().plan().variables()) {
    bits[placed.variable.name] = session.read(placed.variable.name).hash();
  }
  return bits;
}

std::vector<TrainingCase> trainingCases() {
  return {{"Mlp", train<Mlp>}, {"Cnn", train<Cnn>}, {"Lstm", train<Lstm>}, {"Gpt", train<Gpt>}};
}

}  // namespace sluice::testing
