#include "sluice/ops/norm.h"

#include <cmath>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::ops {

DType statisticsType(DType dtype) {
  return dtype == DType::F64 ? DType::F64 : DType::F32;
}

double epsilonOf(const ir::OpView& op) {
  const double epsilon = op.attrs.real("epsilon");
  if (!(epsilon >= 0.0) || std::isinf(epsilon)) {
    raise<InvalidArgument>(
        "{}: epsilon must be finite and at least 0, got {}", op.def.name, epsilon);
  }
  return epsilon;
}

RowDims rowDims(const ir::OpView& op) {
  const Shape& shape = op.inputs[0].shape;
  std::int64_t axis = op.integer("axis");
  if (axis < -shape.rank() || axis >= shape.rank()) {
    raise<InvalidArgument>(
        "{}: axis {} is out of range for shape {}", op.def.name, axis, shape.str());
  }
  axis += axis < 0 ? shape.rank() : 0;
  RowDims d;
  std::vector<std::int64_t> row;
  std::vector<std::int64_t> statistics;
  for (std::int64_t i = 0; i < shape.rank(); ++i) {
    if (i < axis) {
      d.rows *= shape[i];
      statistics.push_back(shape[i]);
    } else {
      d.columns *= shape[i];
      row.push_back(shape[i]);
      statistics.push_back(1);
    }
  }
  d.row = Shape(std::move(row));
  d.statistics = Shape(std::move(statistics));
  return d;
}

RowAxes rowAxes(const ir::OpView& op) {
  const std::int64_t rank = op.inputs[0].shape.rank();
  const std::int64_t first = op.integer("axis") + (op.integer("axis") < 0 ? rank : 0);
  RowAxes axes;
  for (std::int64_t i = 0; i < rank; ++i) {
    (i < first ? axes.rows : axes.row).push_back(i);
  }
  return axes;
}

Value sumOver(GraphBuilder& b, Value x, const std::vector<std::int64_t>& axes) {
  return axes.empty() ? x : reduceSum(b, x, axes);
}

ChannelDims channelDims(const ir::OpView& op) {
  const Shape& shape = op.inputs[0].shape;
  if (shape.rank() < 2) {
    raise<InvalidArgument>(
        "{}: the input must be [batch, channels, ...], got {}", op.def.name, shape.str());
  }
  ChannelDims d{.batch = shape[0], .channels = shape[1]};
  for (std::int64_t i = 2; i < shape.rank(); ++i) {
    d.positions *= shape[i];
  }
  return d;
}

Shape channelShape(std::int64_t channels, std::int64_t rank) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(rank - 1), 1);
  dims[0] = channels;
  return Shape(std::move(dims));
}

void requireType(const ir::OpView& op,
                 std::size_t i,
                 std::string_view what,
                 const TensorType& wanted) {
  if (op.inputs[i] != wanted) {
    raise<InvalidArgument>(
        "{}: {} must be {}, got {}", op.def.name, what, wanted.str(), op.inputs[i].str());
  }
}

std::vector<double> loadDoubles(const ir::KernelArgs& args, std::size_t input) {
  std::vector<double> values;
  dispatch(args.op.inputs[input].dtype, [&]<class T>(T) {
    for (const T value : args.in<T>(input)) {
      values.push_back(static_cast<double>(widen(value)));
    }
  });
  return values;
}

void storeDoubles(const ir::KernelArgs& args, std::size_t output, std::span<const double> values) {
  dispatch(args.op.outputs[output].dtype, [&]<class T>(T) {
    const auto out = args.out<T>(output);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = narrow<T>(values[i]);
    }
  });
}

Value addIfAny(GraphBuilder& b, Value sum, Value term) {
  if (!sum.valid() || !term.valid()) {
    return sum.valid() ? sum : term;
  }
  return add(b, sum, term);
}

}  // namespace sluice::ops
