// log_softmax: x - log(sum(exp(x))) along one axis, shifted by the maximum so that it cannot
// overflow.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sluice/ops/cost.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/ops.h"
#include "sluice/ops/softmax.h"

namespace sluice::ops {
namespace {

std::vector<Value> grad(ir::GradContext& g) {
  return {logSoftmaxGrad(g.b, g.output(0), g.grad(), g.op.integer("axis"))};
}

void reference(const ir::KernelArgs& args) {
  const AxisDims d = axisDims(args.op);
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const T* in = args.in<T>(0).data();
    T* out = args.out<T>(0).data();
    forEachLine(d, [&](std::int64_t first) {
      const auto x = [&](std::int64_t i) {
        return static_cast<double>(widen(in[first + i * d.inner]));
      };
      double top = -std::numeric_limits<double>::infinity();
      for (std::int64_t i = 0; i < d.extent; ++i) {
        top = std::max(top, x(i));
      }
      double sum = 0;
      for (std::int64_t i = 0; i < d.extent; ++i) {
        sum += std::exp(x(i) - top);
      }
      for (std::int64_t i = 0; i < d.extent; ++i) {
        out[first + i * d.inner] = narrow<T>(x(i) - top - std::log(sum));
      }
    });
  });
}

constexpr ir::OnnxName kOnnx[] = {{"LogSoftmax", 13}};

}  // namespace

constinit const ir::OpDef kLogSoftmax{.name = "log_softmax",
                                      .attrs = kSoftmaxAttrs,
                                      .infer = inferSoftmax,
                                      .grad = grad,
                                      .gradReads = {.outputs = 0b1},
                                      .cost = costPerInput<5>,
                                      .reference = reference,
                                      .onnx = kOnnx};

Value logSoftmax(GraphBuilder& b, Value x, std::int64_t axis) {
  return b.add(kLogSoftmax, {x}, {{"axis", axis}});
}

}  // namespace sluice::ops
