// abort: stops the run with a DeviceError, always or if any element of its operand is not 0.
#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/vendor.h"

namespace sluice::ops {
namespace {

std::vector<TensorType> infer(const ir::OpView& /*op*/) {
  return {};
}

void reference(const ir::KernelArgs& args) {
  if (args.inputs.empty()) {
    raise<DeviceError>("abort: the model stops here");
  }
  dispatch(args.op.inputs[0].dtype, [&]<class T>(T) {
    const auto condition = args.in<T>(0);
    const auto found = std::ranges::find_if(
        condition, [](T value) { return widen(value) != decltype(widen(value)){}; });
    if (found != condition.end()) {
      raise<DeviceError>("abort: element {} of the condition {} is {}",
                         found - condition.begin(),
                         args.op.inputs[0].str(),
                         widen(*found));
    }
  });
}

constexpr ir::OnnxName kOnnx[] = {{"Abort", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kAbort{.name = "abort",
                                 .minInputs = 0,
                                 .maxInputs = 1,
                                 .outputs = 0,
                                 .infer = infer,
                                 .reference = reference,
                                 .traits = {.effect = true, .host = true},
                                 .onnx = kOnnx};

void abort(GraphBuilder& b) {
  b.addMany(kAbort, {});
}

void abort(GraphBuilder& b, Value condition) {
  b.addMany(kAbort, {condition});
}

}  // namespace sluice::ops
