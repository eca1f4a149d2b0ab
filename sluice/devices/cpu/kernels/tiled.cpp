#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {

std::unique_ptr<TiledKernel> makeTiled(const ir::OpView& op, const device::Choice& choice) {
  if (choice.implementation != "onednn") {
    return nullptr;
  }
  if (op.def.name == "conv" || op.def.name == "conv_grad_input") {
    return makeTiledConv(op, choice);
  }
  if (op.def.name == "matmul") {
    return makeTiledMatMul(op, choice);
  }
  return nullptr;
}

}  // namespace sluice::devices::cpu
