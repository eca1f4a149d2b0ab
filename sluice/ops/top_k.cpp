// top_k: the k largest (or smallest) elements along one axis in order, and their positions as i64.
// Of equal elements the first comes first; NaN counts as largest.
#include <algorithm>
#include <array>
#include <numeric>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/reduce.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 3> kAttrs = {
    {{.name = "k", .kind = ir::AttrKind::Int, .required = true},
     {.name = "axis", .kind = ir::AttrKind::Int, .integer = -1},
     {.name = "largest", .kind = ir::AttrKind::Bool, .integer = 1}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Numeric);
  const Shape& shape = op.inputs[0].shape;
  const std::int64_t axis = axisAttr(op, shape);
  const std::int64_t k = op.integer("k");
  if (k < 0 || k > shape[axis]) {
    raise<InvalidArgument>("top_k: axis {} of {} does not have {} elements", axis, shape.str(), k);
  }
  Shape chosen = withExtent(shape, axis, k);
  return {{op.inputs[0].dtype, chosen}, {DType::I64, chosen}};
}

std::vector<Value> grad(ir::GradContext& g) {
  const Value zeros = full(g.b, g.op.inputs[0], 0.0);
  return {scatterElements(g.b, zeros, g.output(1), g.grad(0), g.op.integer("axis"), "add")};
}

template <class T>
void selectLines(const ir::KernelArgs& args, const AxisView& view) {
  const std::int64_t k = args.op.integer("k");
  const bool largest = args.op.attrs.flag("largest");
  std::vector<Wide<T>> line(static_cast<std::size_t>(view.extent));
  std::vector<std::int64_t> order(line.size());
  const auto before = [&](std::int64_t i, std::int64_t j) {
    const Wide<T> x = line[static_cast<std::size_t>(i)];
    const Wide<T> y = line[static_cast<std::size_t>(j)];
    if (notANumber(x) || notANumber(y)) {
      return notANumber(x) == notANumber(y) ? i < j : notANumber(x) == largest;
    }
    return x == y ? i < j : (x > y) == largest;
  };
  const T* in = args.in<T>(0).data();
  T* values = args.out<T>(0).data();
  std::int64_t* positions = args.out<std::int64_t>(1).data();
  for (std::int64_t o = 0; o < view.outer * view.inner; ++o) {
    const std::int64_t from = o / view.inner * view.extent * view.inner + o % view.inner;
    const std::int64_t to = o / view.inner * k * view.inner + o % view.inner;
    for (std::int64_t i = 0; i < view.extent; ++i) {
      line[static_cast<std::size_t>(i)] = widen(in[from + i * view.inner]);
    }
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t place = order[static_cast<std::size_t>(i)];
      values[to + i * view.inner] = in[from + place * view.inner];
      positions[to + i * view.inner] = place;
    }
  }
}

void reference(const ir::KernelArgs& args) {
  const Shape& shape = args.op.inputs[0].shape;
  const AxisView view = aroundAxis(shape, axisAttr(args.op, shape));
  if (args.op.outputs[0].bytes() == 0) {
    return;
  }
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) { selectLines<T>(args, view); });
}

constexpr ir::OnnxName kOnnx[] = {{"TopK", 1}, {"TopK", 10}, {"TopK", 11}};

}  // namespace

constinit const ir::OpDef kTopK{.name = "top_k",
                                .outputs = 2,
                                .attrs = kAttrs,
                                .infer = infer,
                                .grad = grad,
                                .gradReads = {.outputs = 0b10},
                                .cost = costReduce,
                                .reference = reference,
                                .onnx = kOnnx};

TopKValues topK(GraphBuilder& b, Value x, std::int64_t k, std::int64_t axis, bool largest) {
  const std::vector<Value> results =
      b.addMany(kTopK, {x}, {{"k", k}, {"axis", axis}, {"largest", largest}});
  return {.values = results[0], .indices = results[1]};
}

}  // namespace sluice::ops
