// The reductions, new tensors and changes of shape of functional.h.
#include <algorithm>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::nn {

using ir::GraphBuilder;
using ir::Value;

namespace {

using Reduce = Value (*)(GraphBuilder&, Value, std::vector<std::int64_t>, bool);

Tensor reduced(std::string_view name,
               Reduce op,
               const Tensor& given,
               std::vector<std::int64_t> axes,
               bool keepDims) {
  const Tensor x = operand(name, given);
  GraphBuilder& b = x.builder();
  return {b, op(b, x.value(), std::move(axes), keepDims)};
}

/// How many elements of x one element of a reduction comes from.
std::int64_t reducedCount(const Tensor& x, const std::vector<std::int64_t>& axes) {
  if (axes.empty()) {
    return x.shape().elements();
  }
  std::int64_t count = 1;
  for (const std::int64_t axis : axes) {
    count *= x.shape(axis);
  }
  return count;
}

Tensor newTensor(Value value) {
  return {Tracer::current().builder(), value};
}

/// start + i * step.
Tensor linspaceOf(double start, double step, std::int64_t count, DType dtype) {
  const Tensor steps = newTensor(ops::iota(Tracer::current().builder(), {dtype, Shape{count}}));
  const Tensor scaled = step == 1.0 ? steps : steps * step;
  return start == 0.0 ? scaled : scaled + start;
}

}  // namespace

Tensor sum(const Tensor& x, std::vector<std::int64_t> axes, bool keepDims) {
  return reduced("sum", ops::reduceSum, x, std::move(axes), keepDims);
}

Tensor mean(const Tensor& x, std::vector<std::int64_t> axes, bool keepDims) {
  return reduced("mean", ops::reduceMean, x, std::move(axes), keepDims);
}

Tensor prod(const Tensor& x, std::vector<std::int64_t> axes, bool keepDims) {
  return reduced("prod", ops::reduceProd, x, std::move(axes), keepDims);
}

Tensor max(const Tensor& x, std::vector<std::int64_t> axes, bool keepDims) {
  return reduced("max", ops::reduceMax, x, std::move(axes), keepDims);
}

Tensor min(const Tensor& x, std::vector<std::int64_t> axes, bool keepDims) {
  return reduced("min", ops::reduceMin, x, std::move(axes), keepDims);
}

Tensor logsumexp(const Tensor& x, std::vector<std::int64_t> axes, bool keepDims) {
  return reduced("logsumexp", ops::reduceLogSumExp, x, std::move(axes), keepDims);
}

Tensor norm(const Tensor& given, std::vector<std::int64_t> axes, bool keepDims) {
  const Tensor x = operand("norm", given);
  return sqrt(sum(square(x), std::move(axes), keepDims));
}

Tensor any(const Tensor& x, std::vector<std::int64_t> axes, bool keepDims) {
  const Tensor truth = cast(cast(x, DType::Bool), DType::I32);
  return cast(max(truth, std::move(axes), keepDims), DType::Bool);
}

Tensor all(const Tensor& x, std::vector<std::int64_t> axes, bool keepDims) {
  const Tensor truth = cast(cast(x, DType::Bool), DType::I32);
  return cast(min(truth, std::move(axes), keepDims), DType::Bool);
}

Tensor var(const Tensor& given, const VarianceOptions& options) {
  const Tensor x = operand("var", given);
  const std::int64_t count = reducedCount(x, options.axes);
  if (options.unbiased && count < 2) {
    raise<InvalidArgument>(
        "var: the unbiased variance needs 2 elements, {} has {} along these axes",
        x.type().str(),
        count);
  }
  GraphBuilder& b = x.builder();
  const Tensor biased(b, ops::variance(b, x.value(), options.axes, options.keepDims));
  const auto n = static_cast<double>(count);
  return options.unbiased ? biased * (n / (n - 1)) : biased;
}

Tensor stddev(const Tensor& x, const VarianceOptions& options) {
  return sqrt(var(x, options));
}

Tensor argMax(const Tensor& x, std::int64_t axis, bool keepDims) {
  GraphBuilder& b = x.builder();
  return {b, ops::argMax(b, x.value(), axis, keepDims)};
}

Tensor argMin(const Tensor& x, std::int64_t axis, bool keepDims) {
  GraphBuilder& b = x.builder();
  return {b, ops::argMin(b, x.value(), axis, keepDims)};
}

Tensor cumsum(const Tensor& given, std::int64_t axis) {
  const Tensor x = operand("cumsum", given);
  GraphBuilder& b = x.builder();
  return {b, ops::cumSum(b, x.value(), axis)};
}

Tensor zeros(const Shape& shape, DType dtype) {
  return full(shape, 0.0, dtype);
}

Tensor ones(const Shape& shape, DType dtype) {
  return full(shape, 1.0, dtype);
}

Tensor full(const Shape& shape, double value, DType dtype) {
  return newTensor(ops::full(Tracer::current().builder(), {dtype, shape}, value));
}

Tensor zerosLike(const Tensor& x) {
  return full(x.shape(), 0.0, x.dtype());
}

Tensor onesLike(const Tensor& x) {
  return full(x.shape(), 1.0, x.dtype());
}

Tensor fullLike(const Tensor& x, double value) {
  return full(x.shape(), value, x.dtype());
}

Tensor arange(std::int64_t end) {
  return arange(0.0, static_cast<double>(end));
}

Tensor arange(double start, double end, double step, DType dtype) {
  const double count = std::ceil((end - start) / step);
  if (!(step != 0.0 && count >= 0.0 && count < 1e9)) {
    raise<InvalidArgument>("arange: steps of {} do not lead from {} to {}", step, start, end);
  }
  return linspaceOf(start, step, static_cast<std::int64_t>(count), dtype);
}

Tensor linspace(double start, double end, std::int64_t count, DType dtype) {
  if (count < 1) {
    raise<InvalidArgument>("linspace: expected at least 1 number, got {}", count);
  }
  const double step = count == 1 ? 0.0 : (end - start) / static_cast<double>(count - 1);
  return linspaceOf(start, step, count, dtype);
}

Tensor eye(std::int64_t size, DType dtype) {
  GraphBuilder& b = Tracer::current().builder();
  const Value positions = ops::iota(b, {DType::I64, Shape{size}});
  return newTensor(ops::oneHot(b, positions, size, dtype));
}

Tensor rand(const Shape& shape, DType dtype) {
  return newTensor(ops::randomUniform(Tracer::current().builder(), {dtype, shape}));
}

Tensor randn(const Shape& shape, DType dtype) {
  return newTensor(ops::randomNormal(Tracer::current().builder(), {dtype, shape}));
}

Tensor oneHot(const Tensor& indices, std::int64_t classes) {
  GraphBuilder& b = indices.builder();
  return {b, ops::oneHot(b, indices.value(), classes, DType::I64)};
}

Tensor flatten(const Tensor& x, std::int64_t startAxis) {
  const Shape& shape = x.shape();
  if (shape.rank() == 0) {
    return reshape(x, {1});
  }
  const auto start = static_cast<std::ptrdiff_t>(normalizeAxis(startAxis, shape.rank()));
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().begin() + start);
  std::int64_t joined = 1;
  for (std::int64_t i = start; i < shape.rank(); ++i) {
    joined *= shape[i];
  }
  dims.push_back(joined);
  return reshape(x, std::move(dims));
}

Tensor reshape(const Tensor& x, std::vector<std::int64_t> dims) {
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::int64_t& extent : dims) {
    if (extent != -1) {
      known *= extent;
    } else if (open == nullptr) {
      open = &extent;
    } else {
      raise<InvalidArgument>("reshape: only one extent may be -1");
    }
  }
  const std::int64_t elements = x.shape().elements();
  if (open != nullptr) {
    if (known <= 0 || elements % known != 0) {
      raise<InvalidArgument>(
          "reshape: {} cannot be cut into parts of {} elements", x.type().str(), known);
    }
    *open = elements / known;
  }
  GraphBuilder& b = x.builder();
  return {b, ops::reshape(b, x.value(), Shape(std::move(dims)))};
}

Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1) {
  const std::int64_t rank = x.shape().rank();
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rank));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i] = static_cast<std::int64_t>(i);
  }
  std::swap(axes[static_cast<std::size_t>(normalizeAxis(axis0, rank))],
            axes[static_cast<std::size_t>(normalizeAxis(axis1, rank))]);
  return permute(x, std::move(axes));
}

Tensor permute(const Tensor& x, std::vector<std::int64_t> axes) {
  GraphBuilder& b = x.builder();
  return {b, ops::transpose(b, x.value(), std::move(axes))};
}

Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis) {
  if (parts.empty()) {
    raise<InvalidArgument>("concat: no tensors are given");
  }
  std::vector<Tensor> operands = parts;
  resolveTypes("cat", operands);
  std::vector<Value> values;
  for (const Tensor& part : operands) {
    part.builder();  // checks that it belongs here
    values.push_back(part.value());
  }
  GraphBuilder& b = parts.front().builder();
  return {b, ops::concat(b, std::move(values), axis)};
}

std::vector<Tensor> split(const Tensor& x, std::vector<std::int64_t> sizes, std::int64_t axis) {
  GraphBuilder& b = x.builder();
  std::vector<Tensor> parts;
  for (const Value value : ops::split(b, x.value(), axis, std::move(sizes))) {
    parts.emplace_back(b, value);
  }
  return parts;
}

Tensor expand(const Tensor& x, std::vector<std::int64_t> dims) {
  const auto added = static_cast<std::int64_t>(dims.size()) - x.rank();
  if (added < 0) {
    raise<InvalidArgument>(
        "expand: {} has more axes than the {} that are wanted", x.type().str(), dims.size());
  }
  for (std::int64_t i = added; i < static_cast<std::int64_t>(dims.size()); ++i) {
    std::int64_t& extent = dims[static_cast<std::size_t>(i)];
    extent = extent == -1 ? x.shape(i - added) : extent;
  }
  GraphBuilder& b = x.builder();
  return {b, ops::broadcastTo(b, x.value(), Shape(std::move(dims)))};
}

Tensor squeeze(const Tensor& x, const std::vector<std::int64_t>& axes) {
  GraphBuilder& b = x.builder();
  return {b, ops::squeeze(b, x.value(), axes)};
}

Tensor unsqueeze(const Tensor& x, std::int64_t axis) {
  GraphBuilder& b = x.builder();
  return {b, ops::unsqueeze(b, x.value(), {axis})};
}

Tensor stack(const std::vector<Tensor>& parts, std::int64_t axis) {
  std::vector<Tensor> rows;
  for (const Tensor& part : parts) {
    if (part.shape() != parts.front().shape()) {
      raise<InvalidArgument>("stack: expected tensors of one shape, got {} and {}",
                             parts.front().type().str(),
                             part.type().str());
    }
    rows.push_back(unsqueeze(part, axis));
  }
  return concat(rows, axis);
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis) {
  if (count < 1) {
    raise<InvalidArgument>("chunk: expected at least 1 part, got {}", count);
  }
  const std::int64_t extent = x.shape(axis);
  const std::int64_t size = std::max<std::int64_t>((extent + count - 1) / count, 1);
  std::vector<std::int64_t> sizes;
  for (std::int64_t done = 0; done < extent; done += size) {
    sizes.push_back(std::min(size, extent - done));
  }
  return split(x, std::move(sizes), axis);
}

std::vector<Tensor> unbind(const Tensor& x, std::int64_t axis) {
  const std::int64_t extent = x.shape(axis);
  std::vector<Tensor> rows =
      split(x, std::vector<std::int64_t>(static_cast<std::size_t>(extent), 1), axis);
  for (Tensor& row : rows) {
    row = squeeze(row, {axis});
  }
  return rows;
}

Tensor tile(const Tensor& x, std::vector<std::int64_t> repeats) {
  Tensor full = x;
  while (full.rank() < static_cast<std::int64_t>(repeats.size())) {
    full = unsqueeze(full, 0);
  }
  const auto missing = full.rank() - static_cast<std::int64_t>(repeats.size());
  repeats.insert(repeats.begin(), static_cast<std::size_t>(missing), 1);
  GraphBuilder& b = x.builder();
  return {b, ops::tile(b, full.value(), std::move(repeats))};
}

Tensor repeatInterleave(const Tensor& x, std::int64_t repeats, std::int64_t axis) {
  const std::int64_t at = normalizeAxis(axis, x.rank());
  std::vector<std::int64_t> times(static_cast<std::size_t>(x.rank()) + 1, 1);
  times[static_cast<std::size_t>(at) + 1] = repeats;
  std::vector<std::int64_t> dims = x.shape().dims();
  dims[static_cast<std::size_t>(at)] *= repeats;
  return reshape(tile(unsqueeze(x, at + 1), std::move(times)), std::move(dims));
}

Tensor flip(const Tensor& x, std::vector<std::int64_t> axes) {
  if (axes.empty()) {
    return x;
  }
  GraphBuilder& b = x.builder();
  return {b, ops::reverse(b, x.value(), std::move(axes))};
}

Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis) {
  const std::int64_t extent = x.shape(axis);
  const std::int64_t moved = extent == 0 ? 0 : ((shift % extent) + extent) % extent;
  if (moved == 0) {
    return x;
  }
  const std::vector<Tensor> parts = split(x, {extent - moved, moved}, axis);
  return concat({parts[1], parts[0]}, axis);
}

Tensor triu(const Tensor& x, std::int64_t diagonal) {
  GraphBuilder& b = x.builder();
  return {b, ops::trilu(b, x.value(), true, diagonal)};
}

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  GraphBuilder& b = x.builder();
  return {b, ops::trilu(b, x.value(), false, diagonal)};
}

Tensor pad(const Tensor& given,
           const std::vector<std::int64_t>& pads,
           std::string_view mode,
           double value) {
  if (mode != "constant" && mode != "reflect" && mode != "replicate") {
    raise<InvalidArgument>("pad: the mode is constant, reflect or replicate, not {}", mode);
  }
  if (pads.size() % 2 != 0 || std::ssize(pads) / 2 > given.rank()) {
    raise<InvalidArgument>(
        "pad: {} has {} axes, so there are at most {} numbers, in pairs (before, after) from the "
        "last axis on; got {}",
        given.type().str(),
        given.rank(),
        2 * given.rank(),
        pads.size());
  }
  Tensor x = given;
  std::vector<std::int64_t> before(static_cast<std::size_t>(x.rank()), 0);
  std::vector<std::int64_t> after = before;
  for (std::size_t i = 0; i < pads.size() / 2; ++i) {
    const std::size_t axis = before.size() - 1 - i;
    before[axis] = pads[2 * i];
    after[axis] = pads[2 * i + 1];
    if (mode == "constant" && (before[axis] < 0 || after[axis] < 0)) {
      const auto at = static_cast<std::int64_t>(axis);
      const std::int64_t end = x.shape(at) + std::min<std::int64_t>(after[axis], 0);
      x = slice(x, at, std::max<std::int64_t>(-before[axis], 0), end);
      before[axis] = std::max<std::int64_t>(before[axis], 0);
      after[axis] = std::max<std::int64_t>(after[axis], 0);
    }
  }
  GraphBuilder& b = x.builder();
  return {b,
          ops::pad(b,
                   x.value(),
                   std::move(before),
                   std::move(after),
                   mode == "replicate" ? "edge" : mode,
                   value)};
}

}  // namespace sluice::nn
