#include "sluice/nn/helpers.h"

#include "sluice/base/error.h"
#include "sluice/nn/checks.h"
#include "sluice/nn/operands.h"
#include "sluice/nn/tracer.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::nn {
namespace {

using ir::GraphBuilder;

std::vector<Tensor> parts(const Tensor& x, std::int64_t axis, std::int64_t count) {
  const std::int64_t extent = x.shape()[normalizeAxis(axis, x.shape().rank())];
  return split(x, std::vector(static_cast<std::size_t>(count), extent / count), axis);
}

/// An operand that several products read. Where gradients must add up in float32 the operand takes
/// a detour through it, so that the contributions meet there; the value does not change.
class Shared {
 public:
  Shared(const Tensor& x, bool wide)
      : x_(wide ? cast(x, DType::F32) : x), dtype_(x.dtype()), wide_(wide) {}
  Tensor use() const { return wide_ ? cast(x_, dtype_) : x_; }

 private:
  Tensor x_;
  DType dtype_;
  bool wide_;
};

Tensor sumOfProducts(const Tensor& lhs, const Tensor& rhs, std::int64_t factor, bool wide) {
  const std::vector<Tensor> left = parts(lhs, -1, factor);
  const std::vector<Tensor> right = parts(rhs, -2, factor);
  Tensor total;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const Tensor product = matmul(left[i], right[i]);
    const Tensor term = wide ? cast(product, DType::F32) : product;
    total = i == 0 ? term : total + term;
  }
  return wide ? cast(total, lhs.dtype()) : total;
}

/// The extent that a mode cuts.
std::int64_t serializedExtent(const Tensor& lhs, const Tensor& rhs, MatMulSerializationMode mode) {
  const std::int64_t last = lhs.shape().rank() - 1;
  switch (mode) {
    case MatMulSerializationMode::InputChannels:
      return lhs.shape()[last - 1];
    case MatMulSerializationMode::ReducingDim:
      return lhs.shape()[last];
    case MatMulSerializationMode::OutputChannels:
    case MatMulSerializationMode::Disabled:
      break;
  }
  return rhs.shape()[last];
}

}  // namespace

Tensor identityLoss(const Tensor& x, Reduction reduction) {
  GraphBuilder& b = x.builder();
  return {b, ops::identityLoss(b, x.value(), reduction)};
}

Tensor allReduce(const Tensor& x) {
  GraphBuilder& b = x.builder();
  return {b, ops::replicaSum(b, x.value())};
}

Tensor allGather(const Tensor& x, std::int64_t replicas) {
  if (replicas < 1) {
    raise<InvalidArgument>("allGather: expected at least 1 replica, got {}", replicas);
  }
  GraphBuilder& b = x.builder();
  std::vector<std::int64_t> dims = x.shape().dims();
  dims.insert(dims.begin(), replicas);
  const ir::Value flat = ops::reshape(b, x.value(), Shape{x.shape().elements()});
  return {b, ops::replicaGather(b, flat, Shape(std::move(dims)), replicas)};
}

Tensor reduceScatter(const Tensor& x, std::int64_t replicas) {
  GraphBuilder& b = x.builder();
  return {b, ops::replicaSumScatter(b, x.value(), replicas)};
}

Tensor serializedMatMul(const Tensor& left,
                        const Tensor& right,
                        MatMulSerializationMode mode,
                        std::int64_t factor,
                        bool keepPrecision) {
  const std::int64_t rank = left.shape().rank();
  // Here and not in each product: the sums have to know the type.
  const auto [lhs, rhs] = operands(rank == 3 ? "bmm" : "mm", left, right);
  if (rank != rhs.shape().rank() || rank < 2 || rank > 3) {
    raise<InvalidArgument>(
        "serializedMatMul: expected two operands of rank 2 or two of rank 3, got {} and {}",
        lhs.type().str(),
        rhs.type().str());
  }
  if (mode == MatMulSerializationMode::Disabled) {
    return matmul(lhs, rhs);
  }
  const std::int64_t extent = serializedExtent(lhs, rhs, mode);
  if (factor < 1 || extent % factor != 0) {
    raise<InvalidArgument>(
        "serializedMatMul: the factor must divide the dimension of {} that is cut, got {}",
        extent,
        factor);
  }
  const bool wide = keepPrecision && isHalf(lhs.dtype());
  if (mode == MatMulSerializationMode::ReducingDim) {
    return sumOfProducts(lhs, rhs, factor, wide);
  }
  const bool cutsLeft = mode == MatMulSerializationMode::InputChannels;
  const std::int64_t axis = cutsLeft ? -2 : -1;
  const Shared other(cutsLeft ? rhs : lhs, wide);
  std::vector<Tensor> products;
  for (const Tensor& part : parts(cutsLeft ? lhs : rhs, axis, factor)) {
    products.push_back(cutsLeft ? matmul(part, other.use()) : matmul(other.use(), part));
  }
  return concat(products, axis);
}

Tensor setAvailableMemory(const Tensor& x, double proportion) {
  x.builder();  // checks that it belongs here
  Tracer::current().memoryHints().push_back({x.value(), checkedProportion(proportion)});
  return x;
}

Tensor dynamicSlice(
    const Tensor& x, std::int64_t axis, const Tensor& start, std::int64_t size, std::int64_t step) {
  if (step < 1 || size % step != 0) {
    raise<InvalidArgument>("dynamicSlice: the step must divide the size {}, got {}", size, step);
  }
  GraphBuilder& b = x.builder();
  start.builder();
  const ir::Value block = ops::dynamicSlice(b, x.value(), start.value(), {axis}, {size});
  if (step == 1) {
    return {b, block};
  }
  const auto rank = static_cast<std::size_t>(x.shape().rank());
  std::vector<std::int64_t> steps(rank, 1);
  steps[static_cast<std::size_t>(normalizeAxis(axis, x.shape().rank()))] = step;
  return {b,
          ops::slice(b, block, std::vector<std::int64_t>(rank, 0), b.shape(block).dims(), steps)};
}

Tensor dynamicUpdate(const Tensor& target,
                     const Tensor& values,
                     std::int64_t axis,
                     const Tensor& start) {
  const auto [x, update] = operands("index_put", target, values);
  GraphBuilder& b = x.builder();
  start.builder();
  return {update.builder(),
          ops::dynamicUpdate(b, x.value(), start.value(), update.value(), {axis})};
}

Tensor tensorLocation(const Tensor& x, bool onChip) {
  return {x.builder(), ops::tensorLocation(x.builder(), x.value(), onChip)};
}

std::vector<Tensor> recomputationCheckpoint(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> kept;
  kept.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    kept.push_back(recomputationCheckpoint(tensor));
  }
  return kept;
}

}  // namespace sluice::nn
