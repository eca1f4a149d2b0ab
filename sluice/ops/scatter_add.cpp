// scatter_add: data with updates added to the rows that indices choose along one axis; the inverse
// of gather in shape and its gradient. Updates of one row are added in the order of the indices.
#include <array>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {{{.name = "axis", .kind = ir::AttrKind::Int}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Numeric);
  requireIndices(op, 1);
  const std::int64_t axis = axisAttr(op, op.inputs[0].shape);
  std::vector<std::int64_t> dims = op.inputs[0].shape.dims();
  const std::vector<std::int64_t>& chosen = op.inputs[1].shape.dims();
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, chosen.begin(), chosen.end());
  const TensorType expected{op.inputs[0].dtype, Shape(std::move(dims))};
  if (op.inputs[2] != expected) {
    raise<InvalidArgument>("scatter_add: updates must be {} for data {} and indices {}, got {}",
                           expected.str(),
                           op.inputs[0].str(),
                           op.inputs[1].str(),
                           op.inputs[2].str());
  }
  return {op.inputs[0]};
}

std::vector<Value> grad(ir::GradContext& g) {
  Value updates;
  if (g.needs(2)) {
    updates = gather(g.b, g.grad(), g.input(1), g.op.integer("axis"));
  }
  return {g.grad(), Value(), updates};
}

ir::Cost cost(const ir::OpView& op) {
  ir::Cost cost{.flops = static_cast<double>(op.inputs[2].shape.elements()),
                .bytesWritten = static_cast<double>(op.outputs[0].bytes())};
  for (const TensorType& type : op.inputs) {
    cost.bytesRead += static_cast<double>(type.bytes());
  }
  return cost;
}

template <class T>
void addUpdates(const ir::KernelArgs& args, const AxisView& view, std::vector<Wide<T>>& sums) {
  const auto updates = args.in<T>(2);
  const std::vector<std::int64_t> indices = readIndices(args, 1, view.extent);
  std::size_t next = 0;
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (const std::int64_t index : indices) {
      const std::int64_t row = (o * view.extent + index) * view.inner;
      for (std::int64_t i = 0; i < view.inner; ++i) {
        const auto to = static_cast<std::size_t>(row + i);
        sums[to] = wrappedSum<Wide<T>>(sums[to], widen(updates[next++]));
      }
    }
  }
}

void reference(const ir::KernelArgs& args) {
  const Shape& shape = args.op.inputs[0].shape;
  const AxisView view = aroundAxis(shape, axisAttr(args.op, shape));
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto data = args.in<T>(0);
    const auto out = args.out<T>(0);
    std::vector<Wide<T>> sums;
    for (const T value : data) {
      sums.push_back(widen(value));
    }
    if (!args.in<T>(2).empty()) {
      addUpdates<T>(args, view, sums);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = narrow<T>(static_cast<Wide<T>>(sums[i]));
    }
  });
}

}  // namespace

constinit const ir::OpDef kScatterAdd{.name = "scatter_add",
                                      .minInputs = 3,
                                      .maxInputs = 3,
                                      .attrs = kAttrs,
                                      .infer = infer,
                                      .grad = grad,
                                      .gradReads = {.inputs = 0b10},
                                      .cost = cost,
                                      .reference = reference};

Value scatterAdd(GraphBuilder& b, Value data, Value indices, Value updates, std::int64_t axis) {
  return b.add(kScatterAdd, {data, indices, updates}, {{"axis", axis}});
}

}  // namespace sluice::ops
