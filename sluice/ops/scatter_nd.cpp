// scatter_nd: data with updates at the elements or slices that gather_nd would read: replaced (the
// last of equal places wins), added, multiplied, or the larger or smaller of both.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/indexed.h"
#include "sluice/ops/indexing_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {kScatterReduction, {.name = "batchDims", .kind = ir::AttrKind::Int}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  checkScatterReduction(op);
  const TensorType expected{op.inputs[0].dtype, tupleShape(op, op.integer("batchDims"))};
  if (op.inputs[2] != expected) {
    raise<InvalidArgument>("scatter_nd: updates must be {} for data {} and indices {}, got {}",
                           expected.str(),
                           op.inputs[0].str(),
                           op.inputs[1].str(),
                           op.inputs[2].str());
  }
  return {op.inputs[0]};
}

std::vector<Value> grad(ir::GradContext& g) {
  const Value indices = g.input(1);
  const std::int64_t batchDims = g.op.integer("batchDims");
  const auto read = [&](Value data) { return gatherNd(g.b, data, indices, batchDims); };
  const auto write = [&](Value data, Value updates, std::string_view reduction) {
    return scatterNd(g.b, data, indices, updates, reduction, batchDims);
  };
  return scatterGrads(g, {.gather = read, .scatter = write});
}

void reference(const ir::KernelArgs& args) {
  scatterPlaces(args, tuplePlaces(args, args.op.integer("batchDims")));
}

constexpr ir::OnnxName kOnnx[] = {{"ScatterND", 11}, {"ScatterND", 13}, {"ScatterND", 16}};

}  // namespace

constinit const ir::OpDef kScatterNd{.name = "scatter_nd",
                                     .minInputs = 3,
                                     .maxInputs = 3,
                                     .attrs = kAttrs,
                                     .infer = infer,
                                     .grad = grad,
                                     .gradReads = {.inputs = 0b111, .outputs = 0b1},
                                     .cost = costOfScatter,
                                     .reference = reference,
                                     .onnx = kOnnx};

Value scatterNd(GraphBuilder& b,
                Value data,
                Value indices,
                Value updates,
                std::string_view reduction,
                std::int64_t batchDims) {
  return b.add(
      kScatterNd, {data, indices, updates}, {{"reduction", reduction}, {"batchDims", batchDims}});
}

}  // namespace sluice::ops
