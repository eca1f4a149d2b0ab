// matmul: batched matrix product of any rank, batch axes broadcast, operands optionally transposed
// in their last two axes. A rank-1 operand is a row (left) or column (right), as in NumPy.
#include "sluice/ops/matmul.h"

#include <array>
#include <type_traits>

#include "sluice/base/error.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 2> kAttrs = {
    {{.name = "transposeA", .kind = ir::AttrKind::Bool},
     {.name = "transposeB", .kind = ir::AttrKind::Bool}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Numeric);
  requireSameDType(op);
  const MatMulDims d = matmulDims(op);
  std::vector<std::int64_t> dims = d.batch.dims();
  if (op.inputs[0].shape.rank() > 1) {
    dims.push_back(d.m);
  }
  if (op.inputs[1].shape.rank() > 1) {
    dims.push_back(d.n);
  }
  return {{op.inputs[0].dtype, Shape(std::move(dims))}};
}

/// A rank-1 operand as a matrix, so that the gradient has one form.
Value asMatrix(GraphBuilder& b, Value v, bool left) {
  const Shape& shape = b.shape(v);
  if (shape.rank() != 1) {
    return v;
  }
  return reshape(b, v, left ? Shape{1, shape[0]} : Shape{shape[0], 1});
}

/// The rows of all matrices of a batch as one matrix, which is free: they lie one after the other.
Value foldRows(GraphBuilder& b, Value v) {
  const Shape& shape = b.shape(v);
  std::int64_t rows = 1;
  for (std::int64_t i = 0; i + 1 < shape.rank(); ++i) {
    rows *= shape[i];
  }
  return reshape(b, v, Shape{rows, shape[shape.rank() - 1]});
}

std::vector<Value> grad(ir::GradContext& g) {
  GraphBuilder& b = g.b;
  const bool ta = g.op.attrs.flag("transposeA");
  const bool tb = g.op.attrs.flag("transposeB");
  const MatMulDims d = matmulDims(g.op);
  std::vector<std::int64_t> dims = d.batch.dims();
  dims.insert(dims.end(), {d.m, d.n});
  const Value dy = reshape(b, g.grad(), Shape(std::move(dims)));
  std::vector<Value> grads(2);
  if (g.needs(0)) {
    const Value y = asMatrix(b, g.input(1), false);
    const Value x = asMatrix(b, g.input(0), true);
    const Value dx = ta ? matmul(b, y, dy, {.transposeA = tb, .transposeB = true})
                        : matmul(b, dy, y, {.transposeA = false, .transposeB = !tb});
    grads[0] = reshape(b, sumTo(b, dx, b.shape(x)), g.op.inputs[0].shape);
  }
  if (g.needs(1)) {
    const Value y = asMatrix(b, g.input(1), false);
    // One matrix for the whole batch gets one product over all rows: products of the single
    // matrices would take memory for each of them, only to be added up.
    const bool fold = b.shape(y).rank() == 2 && !ta;
    const Value x =
        fold ? foldRows(b, asMatrix(b, g.input(0), true)) : asMatrix(b, g.input(0), true);
    const Value rows = fold ? foldRows(b, dy) : dy;
    const Value dw = tb ? matmul(b, rows, x, {.transposeA = true, .transposeB = ta})
                        : matmul(b, x, rows, {.transposeA = !ta, .transposeB = false});
    grads[1] = reshape(b, sumTo(b, dw, b.shape(y)), g.op.inputs[1].shape);
  }
  return grads;
}

ir::Cost cost(const ir::OpView& op) {
  const MatMulDims d = matmulDims(op);
  return {.flops = 2.0 * static_cast<double>(d.batch.elements()) * static_cast<double>(d.m) *
                   static_cast<double>(d.n) * static_cast<double>(d.k),
          .bytesRead = static_cast<double>(op.inputs[0].bytes() + op.inputs[1].bytes()),
          .bytesWritten = static_cast<double>(op.outputs[0].bytes())};
}

/// One row of one matrix times the columns of the other. Integers wrap.
template <class T>
void referenceRow(const MatMulDims& d, const T* x, const T* y, T* out) {
  using Sum = std::conditional_t<std::is_integral_v<T>, std::uint64_t, Wide<T>>;
  for (std::int64_t j = 0; j < d.n; ++j) {
    Sum sum{};
    for (std::int64_t k = 0; k < d.k; ++k) {
      sum += static_cast<Sum>(widen(x[k * d.strideAk])) *
             static_cast<Sum>(widen(y[k * d.strideBk + j * d.strideBn]));
    }
    out[j] = narrow<T>(sum);
  }
}

void reference(const ir::KernelArgs& args) {
  const MatMulDims d = matmulDims(args.op);
  const BroadcastIndex batchA(d.batchA, d.batch);
  const BroadcastIndex batchB(d.batchB, d.batch);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const T* x = args.in<T>(0).data();
    const T* y = args.in<T>(1).data();
    T* out = args.out<T>(0).data();
    for (std::int64_t row = 0; row < d.batch.elements() * d.m; ++row) {
      const std::int64_t batch = row / d.m;
      referenceRow(d,
                   x + batchA(batch) * d.m * d.k + row % d.m * d.strideAm,
                   y + batchB(batch) * d.k * d.n,
                   out + row * d.n);
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"MatMul", 1}, {"MatMul", 9}};

std::int64_t fromEnd(const Shape& shape, std::int64_t i) {
  return shape[shape.rank() - i];
}

}  // namespace

MatMulDims matmulDims(const ir::OpView& op) {
  const Shape& a = op.inputs[0].shape;
  const Shape& b = op.inputs[1].shape;
  const bool ta = op.attrs.flag("transposeA");
  const bool tb = op.attrs.flag("transposeB");
  if (a.rank() == 0 || b.rank() == 0 || (ta && a.rank() < 2) || (tb && b.rank() < 2)) {
    raise<InvalidArgument>(
        "matmul: operands must be of rank 1 or more (2 to be transposed), got {} and {}",
        a.str(),
        b.str());
  }
  MatMulDims d;
  const std::int64_t aRows = a.rank() == 1 ? 1 : fromEnd(a, 2);
  const std::int64_t bCols = b.rank() == 1 ? 1 : fromEnd(b, 1);
  const std::int64_t aCols = fromEnd(a, 1);
  const std::int64_t bRows = b.rank() == 1 ? fromEnd(b, 1) : fromEnd(b, 2);
  d.m = ta ? aCols : aRows;
  d.k = ta ? aRows : aCols;
  d.n = tb ? bRows : bCols;
  d.strideAm = ta ? 1 : aCols;
  d.strideAk = ta ? aCols : 1;
  d.strideBk = tb ? 1 : bCols;
  d.strideBn = tb ? bCols : 1;
  const std::int64_t inner = tb ? bCols : bRows;
  if (d.k != inner) {
    raise<InvalidArgument>("matmul: inner extents {} and {} differ for {}{} and {}{}",
                           d.k,
                           inner,
                           a.str(),
                           ta ? " (transposed)" : "",
                           b.str(),
                           tb ? " (transposed)" : "");
  }
  const auto batchOf = [](const Shape& s) {
    const auto keep = s.dims().size() > 2 ? s.dims().size() - 2 : 0;
    return Shape(std::vector<std::int64_t>(s.dims().begin(),
                                           s.dims().begin() + static_cast<std::ptrdiff_t>(keep)));
  };
  d.batchA = batchOf(a);
  d.batchB = batchOf(b);
  d.batch = broadcast(d.batchA, d.batchB);
  return d;
}

constinit const ir::OpDef kMatMul{.name = "matmul",
                                  .minInputs = 2,
                                  .maxInputs = 2,
                                  .attrs = kAttrs,
                                  .infer = infer,
                                  .grad = grad,
                                  .gradReads = {.inputs = 0b11},
                                  .cost = cost,
                                  .reference = reference,
                                  .onnx = kOnnx};

Value matmul(GraphBuilder& b, Value x, Value y, MatMulOptions options) {
  return b.add(
      kMatMul, {x, y}, {{"transposeA", options.transposeA}, {"transposeB", options.transposeB}});
}

}  // namespace sluice::ops
