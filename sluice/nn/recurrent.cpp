#include "sluice/base/error.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/parameter.h"
#include "sluice/nn/recurrent_step.h"
#include "sluice/nn/sequence.h"
#include "sluice/nn/tracer.h"

namespace sluice::nn {
namespace {

Shape gateShape(std::string_view name, std::int64_t hidden, std::int64_t in) {
  return {4 * positive(hidden, "LstmCell", name, "the hidden size"),
          positive(in, "LstmCell", name, "the input size")};
}

}  // namespace

LstmCell::LstmCell(Module& parent,
                   std::string name,
                   std::int64_t inputSize,
                   std::int64_t hiddenSize,
                   LstmOptions options)
    : Module(parent, std::move(name)),
      weightIh(addParameter("weight_ih",
                            {options.dtype, gateShape(this->name(), hiddenSize, inputSize)},
                            init::layerDefault(hiddenSize))),
      weightHh(addParameter("weight_hh",
                            {options.dtype, Shape{4 * hiddenSize, hiddenSize}},
                            init::layerDefault(hiddenSize))),
      biasIh(nullptr),
      biasHh(nullptr),
      hidden_(hiddenSize) {
  if (options.bias) {
    const TensorType type{options.dtype, Shape{4 * hiddenSize}};
    biasIh = &addParameter("bias_ih", type, init::layerDefault(hiddenSize));
    biasHh = &addParameter("bias_hh", type, init::layerDefault(hiddenSize));
  }
}

LstmState LstmCell::operator()(const Tensor& x, const LstmState& state) {
  requireFits(x, state);
  const ModuleScope scope(*this);
  // One statement each: the order of operands is the compiler's, that of ops should be ours.
  const Tensor wi = weightIh;
  const Tensor wh = weightHh;
  const Tensor fromInput = linear(x, wi, orNone(biasIh));
  const Tensor fromHidden = linear(state.h, wh, orNone(biasHh));
  const RecurrentState next =
      recurrentStep(RecurrentKind::Lstm, fromInput, fromHidden, {state.h, state.c});
  return {next.h, next.c};
}

LstmSequence LstmCell::sequence(const Tensor& x,
                                const LstmState& state,
                                const LoopOptions& options) {
  if (x.shape().rank() != 3) {
    raise<InvalidArgument>("{}: expected a sequence [steps, batch, {}], got {}",
                           description(),
                           weightIh.type().shape[1],
                           x.type().str());
  }
  const Scanned all = scan(
      [&](const std::vector<Tensor>& carried, const std::vector<Tensor>& rows) {
        const LstmState next = (*this)(rows[0], {carried[0], carried[1]});
        return Scanned{{next.h, next.c}, {next.h}};
      },
      {state.h, state.c},
      {x},
      options);
  return {all.rows[0], {all.carried[0], all.carried[1]}};
}

LstmState LstmCell::zeroState(std::int64_t batch) const {
  const Tensor zeros = constant(HostTensor(weightIh.type().dtype, Shape{batch, hidden_}));
  return {zeros, zeros};
}

void LstmCell::requireFits(const Tensor& x, const LstmState& state) const {
  const std::int64_t in = weightIh.type().shape[1];
  if (x.shape().rank() != 2 || x.shape()[1] != in) {
    raise<InvalidArgument>(
        "{}: expected an input [batch, {}], got {}", description(), in, x.type().str());
  }
  const Shape expected{x.shape()[0], hidden_};
  if (state.h.shape() != expected || state.c.shape() != expected) {
    raise<InvalidArgument>("{}: expected states {}, got {} and {}",
                           description(),
                           expected.str(),
                           state.h.type().str(),
                           state.c.type().str());
  }
}

}  // namespace sluice::nn
