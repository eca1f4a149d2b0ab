#include "sluice/ops/indexed.h"

#include <algorithm>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/cost.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/integer_math.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

template <class W, class F>
void combineRuns(const Places& places, std::vector<W>& values, auto updates, F f) {
  std::size_t next = 0;
  for (const std::int64_t start : places.starts) {
    for (std::int64_t i = 0; i < places.run; ++i, ++next) {
      W& value = values[at(start + i)];
      value = static_cast<W>(f(value, widen(updates[next])));
    }
  }
}

template <class T>
void combineInto(const ir::KernelArgs& args, const Places& places, std::string_view reduction) {
  using W = Wide<T>;
  const auto data = args.in<T>(0);
  const auto updates = args.in<T>(2);
  std::vector<W> values;
  values.reserve(data.size());
  for (const T value : data) {
    values.push_back(widen(value));
  }
  if (reduction == "add") {
    combineRuns(places, values, updates, [](W x, W y) { return wrappedSum(x, y); });
  } else if (reduction == "mul") {
    combineRuns(places, values, updates, [](W x, W y) { return wrappedProduct(x, y); });
  } else if (reduction == "max") {
    combineRuns(places, values, updates, [](W x, W y) { return notANumber(y) || x < y ? y : x; });
  } else {
    combineRuns(places, values, updates, [](W x, W y) { return notANumber(y) || y < x ? y : x; });
  }
  const auto out = args.out<T>(0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = narrow<T>(static_cast<W>(values[i]));
  }
}

/// The product of all other factors, right also where some factors are 0: those of the place are
/// counted, and only an update that all others leave at 0 gets nothing.
std::vector<Value> gradsOfProduct(ir::GradContext& g, const ScatterForms& forms) {
  ir::GraphBuilder& b = g.b;
  const Value updates = g.input(2);
  const TensorType& type = g.op.inputs[0];
  const Value one = b.scalar(type.dtype, 1.0);
  const Value zero = b.scalar(type.dtype, 0.0);
  std::vector<Value> grads(3);
  if (g.needs(0)) {
    grads[0] = mul(b, g.grad(), forms.scatter(full(b, type, 1.0), updates, "mul"));
  }
  if (g.needs(2)) {
    const Value isZero = equal(b, updates, zero);
    const Value marks = where(b, isZero, one, zero);
    const Value factors = where(b, isZero, one, updates);
    const Value product = forms.scatter(g.input(0), factors, "mul");
    const Value zeros = forms.scatter(full(b, type, 0.0), marks, "add");
    const Value others = sub(b, forms.gather(zeros), marks);
    const Value through = div(b, forms.gather(mul(b, g.grad(), product)), factors);
    grads[2] = where(b, equal(b, others, zero), through, zero);
  }
  return grads;
}

/// Whoever equals the result gets an equal share.
std::vector<Value> gradsOfExtreme(ir::GradContext& g, const ScatterForms& forms) {
  ir::GraphBuilder& b = g.b;
  const TensorType& type = g.op.inputs[0];
  const Value one = b.scalar(type.dtype, 1.0);
  const Value zero = b.scalar(type.dtype, 0.0);
  const Value result = g.output(0);
  const Value dataWins = where(b, equal(b, g.input(0), result), one, zero);
  const Value updateWins = where(b, equal(b, g.input(2), forms.gather(result)), one, zero);
  const Value share = div(b, g.grad(), forms.scatter(dataWins, updateWins, "add"));
  return {mul(b, dataWins, share), Value(), mul(b, updateWins, forms.gather(share))};
}

}  // namespace

Places elementPlaces(const ir::KernelArgs& args, std::int64_t axis) {
  const Shape& data = args.op.inputs[0].shape;
  const Shape& shape = args.op.inputs[1].shape;
  Places places{.starts = {}};
  if (shape.elements() == 0) {
    return places;
  }
  places.starts = readIndices(args, 1, data[axis]);
  const std::vector<std::int64_t> strides = data.strides();
  std::vector<std::int64_t> position(strides.size(), 0);
  std::int64_t base = 0;  // of all coordinates but the axis's
  for (std::int64_t& start : places.starts) {
    start = base + start * strides[at(axis)];
    for (std::int64_t i = shape.rank() - 1; i >= 0; --i) {
      const std::int64_t stride = i == axis ? 0 : strides[at(i)];
      base += stride;
      if (++position[at(i)] < shape[i]) {
        break;
      }
      base -= stride * shape[i];
      position[at(i)] = 0;
    }
  }
  return places;
}

Places tuplePlaces(const ir::KernelArgs& args, std::int64_t batchDims) {
  const Shape& data = args.op.inputs[0].shape;
  const Shape& shape = args.op.inputs[1].shape;
  const std::int64_t width = shape[shape.rank() - 1];
  const std::vector<std::int64_t> strides = data.strides();
  std::int64_t batches = 1;
  for (std::int64_t i = 0; i < batchDims; ++i) {
    batches *= data[i];
  }
  Places places{.starts = {}};
  for (std::int64_t i = batchDims + width; i < data.rank(); ++i) {
    places.run *= data[i];
  }
  std::int64_t tuples = 1;
  for (std::int64_t i = 0; i + 1 < shape.rank(); ++i) {
    tuples *= shape[i];
  }
  places.starts.assign(at(tuples), 0);
  const std::int64_t perBatch = batches == 0 ? 0 : tuples / batches;
  const std::int64_t batchStride = batches == 0 ? 0 : data.elements() / batches;
  const auto fill = [&](auto indices) {
    std::size_t next = 0;
    for (std::int64_t t = 0; t < tuples; ++t) {
      std::int64_t& start = places.starts[at(t)];
      start = t / perBatch * batchStride;
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t extent = data[batchDims + i];
        const auto index = static_cast<std::int64_t>(indices[next++]);
        if (index < -extent || index >= extent) {
          raise<InvalidArgument>("{}: index {} is out of range for axis {} of {}",
                                 args.op.def.name,
                                 index,
                                 batchDims + i,
                                 data.str());
        }
        start += (index < 0 ? index + extent : index) * strides[at(batchDims + i)];
      }
    }
  };
  if (args.op.inputs[1].dtype == DType::I32) {
    fill(args.in<std::int32_t>(1));
  } else {
    fill(args.in<std::int64_t>(1));
  }
  return places;
}

std::int64_t checkElements(const ir::OpView& op) {
  requireIndices(op, 1);
  const Shape& data = op.inputs[0].shape;
  const Shape& shape = op.inputs[1].shape;
  const std::int64_t axis = axisAttr(op, data);
  bool fits = data.rank() == shape.rank();
  for (std::int64_t i = 0; fits && i < data.rank(); ++i) {
    fits = i == axis || shape[i] <= data[i];
  }
  if (!fits) {
    raise<InvalidArgument>(
        "{}: indices {} must have the rank of data {} and no larger extents but "
        "on axis {}",
        op.def.name,
        op.inputs[1].str(),
        op.inputs[0].str(),
        axis);
  }
  return axis;
}

Shape tupleShape(const ir::OpView& op, std::int64_t batchDims) {
  requireIndices(op, 1);
  const Shape& data = op.inputs[0].shape;
  const Shape& shape = op.inputs[1].shape;
  bool fits = shape.rank() >= 1 && batchDims >= 0 && batchDims < shape.rank() &&
              batchDims + shape[shape.rank() - 1] <= data.rank();
  for (std::int64_t i = 0; fits && i < batchDims; ++i) {
    fits = shape[i] == data[i];
  }
  if (!fits) {
    raise<InvalidArgument>(
        "{}: indices {} with {} batch axes must end in an axis of at most as many coordinates as "
        "data {} has axes behind them",
        op.def.name,
        op.inputs[1].str(),
        batchDims,
        op.inputs[0].str());
  }
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end() - 1);
  for (std::int64_t i = batchDims + shape[shape.rank() - 1]; i < data.rank(); ++i) {
    dims.push_back(data[i]);
  }
  return Shape(std::move(dims));
}

void gatherPlaces(const ir::KernelArgs& args, const Places& places) {
  if (args.op.outputs[0].bytes() == 0) {
    return;
  }
  const std::size_t size = byteSize(args.op.inputs[0].dtype);
  const std::size_t run = at(places.run) * size;
  const auto* in = static_cast<const std::byte*>(args.inputs[0]);
  auto* out = static_cast<std::byte*>(args.outputs[0]);
  for (const std::int64_t start : places.starts) {
    std::memcpy(out, in + at(start) * size, run);
    out += run;
  }
}

void checkScatterReduction(const ir::OpView& op) {
  requireOneOf(op, "reduction", {"none", "add", "mul", "max", "min"});
  if (op.attrs.text("reduction") != "none") {
    requireDType(op, 0, Accepts::Numeric);
  }
}

void scatterPlaces(const ir::KernelArgs& args, const Places& places) {
  const std::string& reduction = args.op.attrs.text("reduction");
  const DType dtype = args.op.inputs[0].dtype;
  if (args.op.outputs[0].bytes() == 0) {
    return;
  }
  if (reduction != "none") {
    return dispatch(dtype, [&]<class T>(T) {
      if constexpr (!std::is_same_v<T, bool>) {
        combineInto<T>(args, places, reduction);
      }
    });
  }
  const std::size_t size = byteSize(dtype);
  const std::size_t run = at(places.run) * size;
  const auto* updates = static_cast<const std::byte*>(args.inputs[2]);
  auto* out = static_cast<std::byte*>(args.outputs[0]);
  std::memcpy(out, args.inputs[0], args.op.outputs[0].bytes());
  for (const std::int64_t start : places.starts) {
    std::memcpy(out + at(start) * size, updates, run);
    updates += run;
  }
}

std::vector<Value> scatterGrads(ir::GradContext& g, const ScatterForms& forms) {
  const std::string& reduction = g.op.attrs.text("reduction");
  if (reduction == "mul") {
    return gradsOfProduct(g, forms);
  }
  if (reduction == "max" || reduction == "min") {
    return gradsOfExtreme(g, forms);
  }
  std::vector<Value> grads(3);
  if (g.needs(0)) {
    grads[0] = reduction == "add" ? g.grad()
                                  : forms.scatter(g.grad(), full(g.b, g.op.inputs[2], 0.0), "none");
  }
  if (g.needs(2)) {
    grads[2] = forms.gather(g.grad());
  }
  return grads;
}

ir::Cost costOfScatter(const ir::OpView& op) {
  return costOfFlops(op, static_cast<double>(op.inputs[2].shape.elements()));
}

}  // namespace sluice::ops
