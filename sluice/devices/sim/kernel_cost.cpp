#include "sluice/devices/sim/kernel_cost.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sluice/base/hash.h"
#include "sluice/ir/printer.h"

namespace sluice::devices::sim {
namespace {

constexpr double kMostTicks = 1e15;

double rateOf(const SimTarget& target, const device::KernelCall& call) {
  const auto known = [&](double rate) { return rate > 0 ? rate : target.flops.f32; };
  const DType type = call.inputTypes.empty() ? DType::F32 : call.inputTypes[0].dtype;
  switch (type) {
    case DType::F16:
      return known(target.flops.f16);
    case DType::BF16:
      return known(target.flops.bf16 > 0 ? target.flops.bf16 : target.flops.f16);
    case DType::F64:
      return known(target.flops.f64);
    default:
      return target.flops.f32;
  }
}

void addTypes(Hasher& hash, std::span<const TensorType> types) {
  for (const TensorType& type : types) {
    hash.add(type.str());
  }
}

}  // namespace

std::string kernelKey(const device::KernelCall& call) {
  Hasher hash;
  hash.add(ir::print(*call.def, call.attrs));
  addTypes(hash, call.inputTypes);
  addTypes(hash, call.outputTypes);
  const device::Choice& choice = call.choice;
  hash.add(choice.implementation).add(choice.config);
  for (const auto* layouts : {&choice.inputs, &choice.outputs}) {
    for (const device::Layout& layout : *layouts) {
      hash.add(static_cast<int>(layout.kind)).add(layout.blob);
    }
  }
  const std::string shape = call.outputTypes.empty() ? "" : call.outputTypes[0].str();
  return fmt::format(
      "{} {} {} {:016x}", call.def->name, choice.implementation, shape, hash.digest());
}

std::int64_t kernelTicks(const SimTarget& target, const device::KernelCall& call) {
  const auto hertz = static_cast<double>(target.clockHz);
  const auto ticks = [&](double seconds) {
    return static_cast<std::int64_t>(std::clamp(std::ceil(seconds * hertz), 0.0, kMostTicks));
  };
  if (!target.kernels.empty()) {
    if (const auto found = target.kernels.find(kernelKey(call)); found != target.kernels.end()) {
      return ticks(found->second);
    }
  }
  const ir::Cost cost = ir::costOf(call.view());
  const double rate = rateOf(target, call);
  const double arithmetic = rate > 0 ? cost.flops / rate : 0;
  const double traffic = target.memoryBytesPerSecond > 0
                             ? (cost.bytesRead + cost.bytesWritten) / target.memoryBytesPerSecond
                             : 0;
  return target.kernelTicks + ticks(std::max(arithmetic, traffic));
}

}  // namespace sluice::devices::sim
