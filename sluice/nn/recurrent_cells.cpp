// GRUCell and RNNCell, and the equations that they share with the layers.
#include "sluice/base/error.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/parameter.h"
#include "sluice/nn/recurrent_step.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {

Tensor orNone(const Parameter* parameter) {
  return parameter != nullptr ? parameter->use() : Tensor();
}

RecurrentState recurrentStep(RecurrentKind cell,
                             const Tensor& fromInput,
                             const Tensor& fromHidden,
                             const RecurrentState& state) {
  const std::int64_t hidden = fromInput.shape(1) / gatesOf(cell);
  if (cell == RecurrentKind::Lstm) {
    const Tensor gates = fromInput + fromHidden;
    const std::vector<Tensor> parts = split(gates, {hidden, hidden, hidden, hidden}, 1);
    const Tensor in = sigmoid(parts[0]);
    const Tensor kept = sigmoid(parts[1]) * state.c;
    const Tensor c = kept + in * tanh(parts[2]);
    const Tensor out = sigmoid(parts[3]);
    return {out * tanh(c), c};
  }
  if (cell == RecurrentKind::Gru) {
    const std::vector<Tensor> input = split(fromInput, {hidden, hidden, hidden}, 1);
    const std::vector<Tensor> own = split(fromHidden, {hidden, hidden, hidden}, 1);
    const Tensor reset = sigmoid(input[0] + own[0]);
    const Tensor update = sigmoid(input[1] + own[1]);
    const Tensor fresh = tanh(input[2] + reset * own[2]);
    return {fresh + update * (state.h - fresh)};
  }
  const Tensor sum = fromInput + fromHidden;
  return {cell == RecurrentKind::Tanh ? tanh(sum) : relu(sum)};
}

namespace {

Shape rowsOf(std::string_view name, RecurrentKind cell, std::int64_t hidden, std::int64_t in) {
  return {gatesOf(cell) * positive(hidden, "recurrent cell", name, "the hidden size"),
          positive(in, "recurrent cell", name, "the input size")};
}

}  // namespace

RecurrentCell::RecurrentCell(Module& parent,
                             std::string name,
                             RecurrentKind cell,
                             std::int64_t inputSize,
                             std::int64_t hiddenSize,
                             CellOptions options)
    : Module(parent, std::move(name)),
      weightIh(addParameter("weight_ih",
                            {options.dtype, rowsOf(this->name(), cell, hiddenSize, inputSize)},
                            init::layerDefault(hiddenSize))),
      weightHh(addParameter("weight_hh",
                            {options.dtype, Shape{gatesOf(cell) * hiddenSize, hiddenSize}},
                            init::layerDefault(hiddenSize))),
      biasIh(nullptr),
      biasHh(nullptr),
      cell_(cell),
      hidden_(hiddenSize) {
  if (options.bias) {
    const TensorType type{options.dtype, Shape{gatesOf(cell) * hiddenSize}};
    biasIh = &addParameter("bias_ih", type, init::layerDefault(hiddenSize));
    biasHh = &addParameter("bias_hh", type, init::layerDefault(hiddenSize));
  }
}

Tensor RecurrentCell::operator()(const Tensor& x, const Tensor& state) {
  const std::int64_t in = weightIh.type().shape[1];
  if (x.rank() != 2 || x.shape(1) != in) {
    raise<InvalidArgument>(
        "{}: expected an input [batch, {}], got {}", description(), in, x.type().str());
  }
  const Shape expected{x.shape(0), hidden_};
  if (state.defined() && state.shape() != expected) {
    raise<InvalidArgument>(
        "{}: expected a state {}, got {}", description(), expected.str(), state.type().str());
  }
  const ModuleScope scope(*this);
  const Tensor before =
      state.defined() ? state : zeros({x.shape(0), hidden_}, weightIh.type().dtype);
  // One statement each: the order of operands is the compiler's, that of ops should be ours.
  const Tensor fromInput = linear(x, weightIh, orNone(biasIh));
  const Tensor fromHidden = linear(before, weightHh, orNone(biasHh));
  return recurrentStep(cell_, fromInput, fromHidden, {before}).h;
}

}  // namespace sluice::nn
