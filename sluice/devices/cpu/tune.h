// Measures how ops run fastest and writes the entries of a tuning table. The table is data: `sluice
// tune` writes it, a device gets it with its options, and it never changes by itself (rule R2).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/device/device.h"

namespace sluice::devices::cpu {

/// Returns "key value" lines for the ops that run at least 3% faster, on one thread, than by the
/// rule; other ops, and ops without alternatives, get no line. Calls `progress` with each op's key
/// before it is measured.
std::string tune(std::span<const device::KernelCall> calls,
                 const std::function<void(std::string_view)>& progress = {});

/// The keys under which the ops are looked up in a tuning table, each once; ops without
/// alternatives have none.
std::vector<std::string> tuningKeys(std::span<const device::KernelCall> calls);

}  // namespace sluice::devices::cpu
