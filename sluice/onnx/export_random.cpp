// Forms of random ops. A file says nothing of the streams that their numbers come from, so an
// imported model draws other ones, unless its random ops were numbered in order.
#include <array>

#include "sluice/onnx/model_writer.h"
#include "sluice/onnx/node.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

Fit fitDropout(const UsedGraph& /*graph*/, const ir::Op& /*op*/) {
  return Fit::Values;
}

/// The third operand says that elements are to be dropped.
void writeDropout(ModelWriter& writer, const ir::Op& op) {
  writer.addNode(op,
                 {"Dropout",
                  {writer.operands(op)[0],
                   writer.constant(HostTensor::scalar(op.attrs.real("p"))),
                   writer.constant(HostTensor::scalar(true))}});
}

void addRandom(ModelWriter& writer, const ir::Op& op, NewNode node) {
  node.attrs.emplace_back("dtype", onnxTypeOf(op.outputs[0].dtype));
  node.attrs.emplace_back("shape", op.outputs[0].shape.dims());
  writer.addNode(op, std::move(node));
}

void writeRandomNormal(ModelWriter& writer, const ir::Op& op) {
  addRandom(writer,
            op,
            {"RandomNormal",
             {},
             {{"mean", op.attrs.real("mean")}, {"scale", op.attrs.real("deviation")}}});
}

void writeRandomUniform(ModelWriter& writer, const ir::Op& op) {
  addRandom(
      writer,
      op,
      {"RandomUniform", {}, {{"low", op.attrs.real("low")}, {"high", op.attrs.real("high")}}});
}

/// The standard draws no bfloat16.
Fit fitRandom(const UsedGraph& /*graph*/, const ir::Op& op) {
  return op.outputs[0].dtype == DType::BF16 ? Fit::None : Fit::Values;
}

std::vector<Value> randomParts(const Whole& whole) {
  ir::Attrs attrs = whole.op.attrs;
  attrs.set({"dtype", std::string(name(DType::F32))});
  const Value drawn = whole.b.add(whole.op.def, {}, std::move(attrs));
  return {ops::cast(whole.b, drawn, whole.op.outputs[0].dtype)};
}

constexpr std::array kRandomForms = {
    StandardForm{"dropout", writeDropout, fitDropout},
    StandardForm{"random_normal", writeRandomNormal, fitRandom, randomParts},
    StandardForm{"random_uniform", writeRandomUniform, fitRandom, randomParts},
};

}  // namespace

std::span<const StandardForm> randomForms() {
  return kRandomForms;
}

}  // namespace sluice::onnx
