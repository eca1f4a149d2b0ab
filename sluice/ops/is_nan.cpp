// is_nan: whether x is not a number, as bool.
#include "sluice/ops/elementwise.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::ops {
namespace {

std::vector<TensorType> infer(const ir::OpView& op) {
  requireDType(op, 0, Accepts::Floating);
  return {{DType::Bool, op.inputs[0].shape}};
}

void reference(const ir::KernelArgs& args) {
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto in = args.in<T>(0);
    const auto out = args.out<bool>(0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = notANumber(widen(in[i]));
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"IsNaN", 9}};

}  // namespace

constinit const ir::OpDef kIsNan{.name = "is_nan",
                                 .infer = infer,
                                 .reference = reference,
                                 .traits = kElementwise,
                                 .onnx = kOnnx};

Value isNan(GraphBuilder& b, Value x) {
  return b.add(kIsNan, {x});
}

}  // namespace sluice::ops
