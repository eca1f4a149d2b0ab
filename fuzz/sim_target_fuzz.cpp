// Any text as a target of simulated devices: refused as a ConfigFileError, or it is printed as it
// is read, and kernels have costs on it that are not negative.
#include "fuzz/target.h"
#include "sluice/devices/sim/kernel_cost.h"
#include "sluice/devices/sim/target.h"
#include "sluice/ops/linear_ops.h"

using namespace sluice;

SLUICE_FUZZ_TARGET(sim_target) {
  devices::sim::SimTarget target;
  try {
    target = devices::sim::parseTarget(fuzz::textOf(data, size), "target.json");
  } catch (const ConfigFileError&) {
    return;
  }
  fuzz::require(devices::sim::parseTarget(print(target), "again") == target,
                "the text of a target is read as another one");
  device::KernelCall call;
  call.def = &ops::kMatMul;
  call.attrs = ir::completeAttrs(*call.def, {});
  call.inputTypes.assign(2, TensorType{DType::F32, Shape{8, 8}});
  call.outputTypes = call.def->infer({*call.def, call.attrs, call.inputTypes, {}});
  call.choice = device::plainChoice(call.view(), "any");
  fuzz::require(devices::sim::kernelTicks(target, call) >= 0, "a kernel takes negative time");
}
