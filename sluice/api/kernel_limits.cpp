#include "sluice/api/kernel_limits.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/base/log.h"

namespace sluice {
namespace {

double rateOf(const device::ComputeRates& rates, const device::KernelCall& call) {
  const DType type = call.inputTypes.empty() ? DType::F32 : call.inputTypes[0].dtype;
  const double rate = type == DType::F16    ? rates.f16
                      : type == DType::BF16 ? rates.bf16
                      : type == DType::F64  ? rates.f64
                                            : 0;
  return rate > 0 ? rate : rates.f32;
}

devices::Measured measured(const devices::DeviceName& name, int threads) {
  try {
    const auto device = devices::makeDevice({.name = {.kind = name.kind}, .threads = threads});
    return devices::measureRates(*device, {.secondsEach = 0.005});
  } catch (const Error& error) {
    log::info("profile", "the rates of {} are not known: {}", name.kind, error.message());
    return {};
  }
}

}  // namespace

double limitSeconds(const devices::Measured& rates, const device::KernelCall& call) {
  const ir::Cost cost = ir::costOf(call.view());
  const auto seconds = [](double amount, double rate) { return rate > 0 ? amount / rate : 0; };
  return std::max(seconds(cost.flops, rateOf(rates.rates, call)),
                  seconds(cost.bytesRead + cost.bytesWritten, rates.memoryBytesPerSecond));
}

profile::KernelLimit measuredLimits(const devices::DeviceList& devices, int threads) {
  auto known = std::make_shared<std::map<std::string, devices::Measured>>();
  return [=](std::int32_t device, const device::KernelCall& call) {
    const devices::DeviceName& name = devices.at(static_cast<std::size_t>(device));
    const auto found = known->find(name.kind);
    const devices::Measured& rates =
        found != known->end() ? found->second
                              : known->emplace(name.kind, measured(name, threads)).first->second;
    return limitSeconds(rates, call);
  };
}

}  // namespace sluice
