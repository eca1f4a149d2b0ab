// reverse_sequence: in each sequence (one per coordinate of batchAxis) the first `length` elements
// along timeAxis in reverse order; what lies behind them stays.
#include <array>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/layout.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "batchAxis", .kind = ir::AttrKind::Int, .integer = 1},
     {.name = "timeAxis", .kind = ir::AttrKind::Int}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireIndices(op, 1);
  const Shape& shape = op.inputs[0].shape;
  const std::int64_t batch = op.integer("batchAxis");
  const std::int64_t time = op.integer("timeAxis");
  if (shape.rank() < 2 || std::min(batch, time) != 0 || std::max(batch, time) != 1) {
    raise<InvalidArgument>(
        "reverse_sequence: batchAxis and timeAxis must be the axes 0 and 1, in "
        "either order, of {}, got {} and {}",
        shape.str(),
        batch,
        time);
  }
  if (op.inputs[1].shape != Shape{shape[batch]}) {
    raise<InvalidArgument>(
        "reverse_sequence: expected one length for each of the {} sequences, "
        "got {}",
        shape[batch],
        op.inputs[1].str());
  }
  return {op.inputs[0]};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {reverseSequence(
              g.b, g.grad(), g.input(1), g.op.integer("batchAxis"), g.op.integer("timeAxis")),
          Value()};
}

void reference(const ir::KernelArgs& args) {
  const Shape& shape = args.op.inputs[0].shape;
  const bool timeFirst = args.op.integer("timeAxis") == 0;
  const std::int64_t steps = shape[timeFirst ? 0 : 1];
  const std::int64_t sequences = shape[timeFirst ? 1 : 0];
  if (shape.elements() == 0) {
    return;
  }
  const std::size_t run = args.op.inputs[0].bytes() / static_cast<std::size_t>(steps * sequences);
  const auto* in = static_cast<const std::byte*>(args.inputs[0]);
  auto* out = static_cast<std::byte*>(args.outputs[0]);
  const auto place = [&](std::int64_t sequence, std::int64_t step) {
    return run * static_cast<std::size_t>(timeFirst ? step * sequences + sequence
                                                    : sequence * steps + step);
  };
  const bool narrowLengths = args.op.inputs[1].dtype == DType::I32;
  for (std::int64_t s = 0; s < sequences; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t length =
        narrowLengths ? args.in<std::int32_t>(1)[at] : args.in<std::int64_t>(1)[at];
    if (length < 0 || length > steps) {
      raise<InvalidArgument>(
          "reverse_sequence: length {} of sequence {} is not from 0 to {}", length, s, steps);
    }
    for (std::int64_t t = 0; t < steps; ++t) {
      std::memcpy(out + place(s, t), in + place(s, t < length ? length - 1 - t : t), run);
    }
  }
}

constexpr ir::OnnxName kOnnx[] = {{"ReverseSequence", 10}};

}  // namespace

constinit const ir::OpDef kReverseSequence{.name = "reverse_sequence",
                                           .minInputs = 2,
                                           .maxInputs = 2,
                                           .attrs = kAttrs,
                                           .infer = infer,
                                           .grad = grad,
                                           .gradReads = {.inputs = 0b10},
                                           .cost = costOfMove,
                                           .reference = reference,
                                           .onnx = kOnnx};

Value reverseSequence(
    GraphBuilder& b, Value x, Value lengths, std::int64_t batchAxis, std::int64_t timeAxis) {
  return b.add(kReverseSequence, {x, lengths}, {{"batchAxis", batchAxis}, {"timeAxis", timeAxis}});
}

}  // namespace sluice::ops
