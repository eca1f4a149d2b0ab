// The extents of a matmul, used by its reference and by device kernels.
#pragma once

#include <cstdint>

#include "sluice/ir/op_def.h"
#include "sluice/ops/elementwise.h"

namespace sluice::ops {

/// C[batch, m, n] = A[batchA, m, k] B[batchB, k, n]; strides are within one matrix, in elements.
struct MatMulDims {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t strideAm = 0;
  std::int64_t strideAk = 0;
  std::int64_t strideBk = 0;
  std::int64_t strideBn = 0;
  Shape batchA;
  Shape batchB;
  Shape batch;
};

/// Throws InvalidArgument if the operands do not match.
MatMulDims matmulDims(const ir::OpView& op);

}  // namespace sluice::ops
