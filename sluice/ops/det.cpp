// det: the determinants of the square matrices in the last two axes.
#include "sluice/ops/determinant.h"
#include "sluice/ops/linear_ops.h"

namespace sluice::ops {
namespace {

std::vector<TensorType> infer(const ir::OpView& op) {
  requireSquare(op);
  std::vector<std::int64_t> dims = op.inputs[0].shape.dims();
  dims.resize(dims.size() - 2);
  return {{op.inputs[0].dtype, Shape(std::move(dims))}};
}

std::vector<Value> grad(ir::GradContext& g) {
  return {detGrad(g.b, g.input(0), g.grad())};
}

ir::Cost cost(const ir::OpView& op) {
  const auto n = static_cast<double>(op.inputs[0].shape.dims().back());
  return {.flops = 2.0 / 3.0 * n * static_cast<double>(op.inputs[0].shape.elements()),
          .bytesRead = static_cast<double>(op.inputs[0].bytes()),
          .bytesWritten = static_cast<double>(op.outputs[0].bytes())};
}

void reference(const ir::KernelArgs& args) {
  const auto n = static_cast<std::size_t>(args.op.inputs[0].shape.dims().back());
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto in = args.in<T>(0);
    const auto out = args.out<T>(0);
    std::vector<double> matrix(n * n);
    for (std::size_t m = 0; m < out.size(); ++m) {
      for (std::size_t i = 0; i < matrix.size(); ++i) {
        matrix[i] = static_cast<double>(widen(in[m * matrix.size() + i]));
      }
      out[m] = narrow<T>(determinant(matrix, n));
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Det", 11}};

}  // namespace

constinit const ir::OpDef kDet{.name = "det",
                               .infer = infer,
                               .grad = grad,
                               .gradReads = {.inputs = 0b1},
                               .cost = cost,
                               .reference = reference,
                               .onnx = kOnnx};

Value det(GraphBuilder& b, Value x) {
  return b.add(kDet, {x});
}

}  // namespace sluice::ops
