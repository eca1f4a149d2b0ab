// Shared by the reduction op files. Axes may be negative; an empty list means all axes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#include "sluice/ir/op_def.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {

inline constexpr std::array<ir::AttrSpec, 2> kReduceAttrs = {
    {{.name = "axes", .kind = ir::AttrKind::Ints},
     {.name = "keepDims", .kind = ir::AttrKind::Bool}}};

std::vector<TensorType> inferReduce(const ir::OpView& op);
/// Same as above, for floats only.
std::vector<TensorType> inferReduceFloats(const ir::OpView& op);
ir::Cost costReduce(const ir::OpView& op);

/// For each axis of the input, whether it is reduced. Throws InvalidArgument for axes that are out
/// of range or given twice.
std::vector<bool> reducedAxes(const ir::OpView& op);

/// The input's shape with extent 1 on the reduced axes.
Shape keptShape(const ir::OpView& op);

/// Broadcasts a value of the reduced shape (a gradient, a maximum) back to the input's shape.
ir::Value expandReduced(ir::GradContext& g, ir::Value value);

/// The gradient of a maximum or minimum; elements that equal the result share it equally.
ir::Value gradOfExtreme(ir::GradContext& g);

/// The start of a maximum: no value of type T is below it.
template <class T>
constexpr Wide<T> lowestOf() {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<Wide<T>>(std::numeric_limits<T>::lowest());
  } else {
    return -std::numeric_limits<double>::infinity();
  }
}
/// The start of a minimum: no value of type T is above it.
template <class T>
constexpr Wide<T> highestOf() {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<Wide<T>>(std::numeric_limits<T>::max());
  } else {
    return std::numeric_limits<double>::infinity();
  }
}

/// out = finish(fold over the reduced elements in row-major order, starting from start(T{})).
template <class Start, class Fold, class Finish = std::identity>
void referenceReduce(const ir::KernelArgs& args, Start start, Fold fold, Finish finish = {}) {
  const Shape kept = keptShape(args.op);
  const BroadcastIndex target(kept, args.op.inputs[0].shape);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const auto in = args.in<T>(0);
    const auto out = args.out<T>(0);
    std::vector<W> sums(out.size(), static_cast<W>(start(T{})));
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto to = static_cast<std::size_t>(target(static_cast<std::int64_t>(i)));
      sums[to] = static_cast<W>(fold(static_cast<W>(sums[to]), widen(in[i])));
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = narrow<T>(finish(static_cast<W>(sums[i])));
    }
  });
}

}  // namespace sluice::ops
