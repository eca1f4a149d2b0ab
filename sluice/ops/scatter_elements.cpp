// scatter_elements: data with an update for each index, at the index's coordinate of one axis and
// its own coordinates of all other axes: replaced (the last of equal indices wins), added,
// multiplied, or the larger or smaller of both.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/indexed.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/layout.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "axis", .kind = ir::AttrKind::Int}, kScatterReduction}};

std::vector<TensorType> infer(const ir::OpView& op) {
  checkElements(op);
  checkScatterReduction(op);
  const TensorType expected{op.inputs[0].dtype, op.inputs[1].shape};
  if (op.inputs[2] != expected) {
    raise<InvalidArgument>(
        "scatter_elements: updates must be {} for data {} and indices {}, got {}",
        expected.str(),
        op.inputs[0].str(),
        op.inputs[1].str(),
        op.inputs[2].str());
  }
  return {op.inputs[0]};
}

std::vector<Value> grad(ir::GradContext& g) {
  const Value indices = g.input(1);
  const std::int64_t axis = g.op.integer("axis");
  const auto read = [&](Value data) { return gatherElements(g.b, data, indices, axis); };
  const auto write = [&](Value data, Value updates, std::string_view reduction) {
    return scatterElements(g.b, data, indices, updates, axis, reduction);
  };
  return scatterGrads(g, {.gather = read, .scatter = write});
}

void reference(const ir::KernelArgs& args) {
  scatterPlaces(args, elementPlaces(args, axisAttr(args.op, args.op.inputs[0].shape)));
}

constexpr ir::OnnxName kOnnx[] = {{"ScatterElements", 11},
                                  {"ScatterElements", 13},
                                  {"ScatterElements", 16},
                                  {"Scatter", 9},
                                  {"Scatter", 11}};

}  // namespace

constinit const ir::OpDef kScatterElements{.name = "scatter_elements",
                                           .minInputs = 3,
                                           .maxInputs = 3,
                                           .attrs = kAttrs,
                                           .infer = infer,
                                           .grad = grad,
                                           .gradReads = {.inputs = 0b111, .outputs = 0b1},
                                           .cost = costOfScatter,
                                           .reference = reference,
                                           .onnx = kOnnx};

Value scatterElements(GraphBuilder& b,
                      Value data,
                      Value indices,
                      Value updates,
                      std::int64_t axis,
                      std::string_view reduction) {
  return b.add(
      kScatterElements, {data, indices, updates}, {{"axis", axis}, {"reduction", reduction}});
}

}  // namespace sluice::ops
