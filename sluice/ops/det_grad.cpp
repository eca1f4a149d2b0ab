// det_grad: dy times the cofactors of x, which are the slopes of its determinant. A regular
// matrix's cofactors are det(x) inverse(x)^T; a singular one's are found one by one.
#include <vector>

#include "sluice/ops/determinant.h"
#include "sluice/ops/linear_ops.h"

namespace sluice::ops {
namespace {

using Matrix = std::vector<double>;

std::vector<TensorType> infer(const ir::OpView& op) {
  requireSquare(op);
  requireSameDType(op);
  std::vector<std::int64_t> dims = op.inputs[0].shape.dims();
  dims.resize(dims.size() - 2);
  if (op.inputs[1].shape != Shape(dims)) {
    raise<InvalidArgument>("det_grad: dy is {}, expected one number for each matrix of {}",
                           op.inputs[1].str(),
                           op.inputs[0].str());
  }
  return {op.inputs[0]};
}

/// x becomes its inverse transposed; false if a pivot is 0.
bool invertTransposed(Matrix& x, std::size_t n) {
  Matrix work = x;
  Matrix inverse(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    inverse[i * n + i] = 1.0;
  }
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t row = k + 1; row < n; ++row) {
      pivot = std::fabs(work[row * n + k]) > std::fabs(work[pivot * n + k]) ? row : pivot;
    }
    if (work[pivot * n + k] == 0.0) {
      return false;
    }
    const double scale = 1.0 / work[pivot * n + k];
    for (std::size_t c = 0; c < n; ++c) {
      std::swap(work[pivot * n + c], work[k * n + c]);
      std::swap(inverse[pivot * n + c], inverse[k * n + c]);
      work[k * n + c] *= scale;
      inverse[k * n + c] *= scale;
    }
    for (std::size_t row = 0; row < n; ++row) {
      const double factor = row == k ? 0.0 : work[row * n + k];
      for (std::size_t c = 0; c < n && factor != 0.0; ++c) {
        work[row * n + c] -= factor * work[k * n + c];
        inverse[row * n + c] -= factor * inverse[k * n + c];
      }
    }
  }
  for (std::size_t i = 0; i < n * n; ++i) {
    x[i % n * n + i / n] = inverse[i];
  }
  return true;
}

double cofactor(const Matrix& x, std::size_t n, std::size_t row, std::size_t column) {
  Matrix minor;
  for (std::size_t i = 0; i < n * n; ++i) {
    if (i / n != row && i % n != column) {
      minor.push_back(x[i]);
    }
  }
  const double value = determinant(minor, n - 1);
  return (row + column) % 2 == 0 ? value : -value;
}

Matrix cofactors(const Matrix& x, std::size_t n) {
  Matrix copy = x;
  const double det = determinant(copy, n);
  Matrix result = x;
  if (det != 0.0 && invertTransposed(result, n)) {
    for (double& value : result) {
      value *= det;
    }
    return result;
  }
  for (std::size_t i = 0; i < n * n; ++i) {
    result[i] = cofactor(x, n, i / n, i % n);
  }
  return result;
}

void reference(const ir::KernelArgs& args) {
  const auto n = static_cast<std::size_t>(args.op.inputs[0].shape.dims().back());
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto in = args.in<T>(0);
    const auto dy = args.in<T>(1);
    const auto out = args.out<T>(0);
    Matrix matrix(n * n);
    for (std::size_t m = 0; m < dy.size(); ++m) {
      const std::size_t first = m * n * n;
      for (std::size_t i = 0; i < n * n; ++i) {
        matrix[i] = static_cast<double>(widen(in[first + i]));
      }
      const Matrix slopes = cofactors(matrix, n);
      for (std::size_t i = 0; i < n * n; ++i) {
        out[first + i] = narrow<T>(static_cast<double>(widen(dy[m])) * slopes[i]);
      }
    }
  });
}

}  // namespace

constinit const ir::OpDef kDetGrad{
    .name = "det_grad", .minInputs = 2, .maxInputs = 2, .infer = infer, .reference = reference};

Value detGrad(GraphBuilder& b, Value x, Value dy) {
  return b.add(kDetGrad, {x, dy});
}

}  // namespace sluice::ops
