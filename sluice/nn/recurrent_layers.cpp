// LSTM, GRU and RNN. The products of all inputs of a direction are one matrix product before its
// loop; the loop has those of the hidden states.
#include "sluice/base/error.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/parameter.h"
#include "sluice/nn/recurrent_step.h"
#include "sluice/nn/sequence.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {

Recurrent::Recurrent(Module& parent,
                     std::string name,
                     Cell cell,
                     std::int64_t inputSize,
                     std::int64_t hiddenSize,
                     RecurrentOptions options)
    : Layer(parent, std::move(name)), cell_(cell), hidden_(hiddenSize), options_(options) {
  positive(inputSize, "recurrent layer", path(), "the input size");
  positive(hiddenSize, "recurrent layer", path(), "the hidden size");
  positive(options.numLayers, "recurrent layer", path(), "numLayers");
  if (!(options.dropout >= 0.0 && options.dropout < 1.0)) {
    raise<InvalidArgument>("recurrent layer '{}': dropout is {}, expected a number in [0, 1)",
                           path(),
                           options.dropout);
  }
  const std::int64_t rows = gatesOf(cell) * hiddenSize;
  const ir::Initializer start = init::layerDefault(hiddenSize);
  for (std::int64_t layer = 0; layer < options.numLayers; ++layer) {
    const std::int64_t ways = options.bidirectional ? 2 : 1;
    const std::int64_t width = layer == 0 ? inputSize : ways * hiddenSize;
    for (std::int64_t way = 0; way < ways; ++way) {
      const std::string suffix = fmt::format("_l{}{}", layer, way == 0 ? "" : "_reverse");
      const auto made = [&](const char* what, const Shape& shape) {
        return &addParameter(what + suffix, {options.dtype, shape}, start);
      };
      Direction direction{};
      direction.weightIh = made("weight_ih", Shape{rows, width});
      direction.weightHh = made("weight_hh", Shape{rows, hiddenSize});
      direction.biasIh = options.bias ? made("bias_ih", Shape{rows}) : nullptr;
      direction.biasHh = options.bias ? made("bias_hh", Shape{rows}) : nullptr;
      directions_.push_back(direction);
    }
  }
}

RecurrentOutput Recurrent::operator()(const Tensor& x, const RecurrentState& state) {
  const ModuleScope scope(*this);
  return apply(x, state);
}

Tensor Recurrent::forward(const Tensor& x) {
  return apply(x, {}).output;
}

RecurrentOutput Recurrent::apply(const Tensor& given, const RecurrentState& state) {
  requireFits(given, state);
  Tensor x = options_.batchFirst ? transpose(given, 0, 1) : given;
  const std::size_t ways = options_.bidirectional ? 2 : 1;
  std::vector<Tensor> h;
  std::vector<Tensor> c;
  for (std::size_t first = 0; first < directions_.size(); first += ways) {
    std::vector<Tensor> outputs;
    for (std::size_t i = first; i < first + ways; ++i) {
      const DirectionOutput part = direction(x, i, state);
      outputs.push_back(part.output);
      h.push_back(part.last.h);
      if (cell_ == Cell::Lstm) {
        c.push_back(part.last.c);
      }
    }
    x = ways == 1 ? outputs[0] : concat(outputs, 2);
    if (first + ways < directions_.size()) {
      x = dropout(x, options_.dropout, isTraining());
    }
  }
  return {options_.batchFirst ? transpose(x, 0, 1) : x, std::move(h), std::move(c)};
}

RecurrentState RecurrentOutput::last() const {
  return {stack(h), c.empty() ? Tensor() : stack(c)};
}

Recurrent::DirectionOutput Recurrent::direction(const Tensor& x,
                                                std::size_t index,
                                                const RecurrentState& given) {
  const Direction& weights = directions_[index];
  // One statement each: the order of operands is the compiler's, that of ops should be ours.
  const Tensor wi = *weights.weightIh;
  const Tensor wh = *weights.weightHh;
  const Tensor bi = orNone(weights.biasIh);
  const Tensor bh = orNone(weights.biasHh);
  const Tensor fromInputs = linear(x, wi, bi);
  const RecurrentState first = start(given, index, fromInputs);
  std::vector<Tensor> carried = {first.h};
  if (cell_ == Cell::Lstm) {
    carried.push_back(first.c);
  }
  const Scanned all = scan(
      [&](const std::vector<Tensor>& before, const std::vector<Tensor>& rows) {
        const Tensor fromHidden = linear(before[0], wh, bh);
        const RecurrentState state{before[0], before.size() > 1 ? before[1] : Tensor()};
        const RecurrentState next = recurrentStep(cell_, rows[0], fromHidden, state);
        std::vector<Tensor> after = {next.h};
        if (next.c.defined()) {
          after.push_back(next.c);
        }
        return Scanned{after, {next.h}};
      },
      carried,
      {fromInputs},
      {.reverse = options_.bidirectional && index % 2 == 1});
  return {all.rows[0], {all.carried[0], cell_ == Cell::Lstm ? all.carried[1] : Tensor()}};
}

RecurrentState Recurrent::start(const RecurrentState& given,
                                std::size_t index,
                                const Tensor& fromInputs) const {
  const auto at = static_cast<std::int64_t>(index);
  const DType dtype = fromInputs.dtype();  // the weights', or the one that autocast chose
  const auto row = [&](const Tensor& states) {
    if (!states.defined()) {
      return zeros({fromInputs.shape(1), hidden_}, dtype);
    }
    return states.dtype() == dtype ? states[at] : cast(states[at], dtype);
  };
  return {row(given.h), cell_ == Cell::Lstm ? row(given.c) : Tensor()};
}

void Recurrent::requireFits(const Tensor& x, const RecurrentState& state) const {
  const std::int64_t width = directions_[0].weightIh->type().shape[1];
  if (x.rank() != 3 || x.shape(2) != width || x.shape().elements() == 0) {
    raise<InvalidArgument>("{}: expected a sequence [{}, {}], got {}",
                           description(),
                           options_.batchFirst ? "batch, steps" : "steps, batch",
                           width,
                           x.type().str());
  }
  const Shape expected{std::ssize(directions_), x.shape(options_.batchFirst ? 0 : 1), hidden_};
  for (const Tensor* given : {&state.h, &state.c}) {
    if (given->defined() && given->shape() != expected) {
      raise<InvalidArgument>(
          "{}: expected a state {}, got {}", description(), expected.str(), given->type().str());
    }
  }
  if (state.c.defined() && cell_ != Cell::Lstm) {
    raise<InvalidArgument>("{}: it has no cell state, but one is given", description());
  }
}

}  // namespace sluice::nn
