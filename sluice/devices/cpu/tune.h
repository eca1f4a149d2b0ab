// Measures how ops run fastest and writes the entries of a tuning table. The table is data: it is
// written by `sluice tune`, given to a device by its options, and never changes by itself (rule
// R2).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "sluice/device/device.h"

namespace sluice::devices::cpu {

/// Lines "key value" for the ops that run at least 3% faster than by rule, one thread; other ops,
/// and ops without alternatives, give none. `progress` is told each op's key before it is measured.
std::string tune(std::span<const device::KernelCall> calls,
                 const std::function<void(std::string_view)>& progress = {});

}  // namespace sluice::devices::cpu
