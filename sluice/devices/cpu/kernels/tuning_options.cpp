#include "sluice/devices/cpu/kernels/tuning_options.h"

#include "sluice/devices/cpu/kernels/kernels.h"

namespace sluice::devices::cpu {

std::optional<TuningOptions> tuningOptions(const ir::OpView& op) {
  const std::string_view name = op.def.name;
  if (name == "matmul") {
    return supportsMatMul(op) ? std::optional(matmulTuning(op)) : std::nullopt;
  }
  if (name == "conv" || name == "conv_grad_input" || name == "conv_grad_weight") {
    return supportsConv(op) ? std::optional(convTuning(op)) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace sluice::devices::cpu
