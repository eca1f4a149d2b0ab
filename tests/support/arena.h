// Fills and reads the transient memory of a model's device, for tests on any kind of device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/runtime/model_state.h"

namespace sluice::testing {

inline void paintTransient(const runtime::ModelState& state, std::int32_t device, std::byte paint) {
  const device::Memory& memory = *state.transient(device);
  state.queueOf(device).fill(memory.at(), paint, memory.bytes());
  state.queueOf(device).finish();
}

inline std::vector<std::byte> readTransient(const runtime::ModelState& state, std::int32_t device) {
  const device::Memory& memory = *state.transient(device);
  std::vector<std::byte> bytes(memory.bytes());
  device::copyOut(state.queueOf(device), bytes.data(), memory.at(), bytes.size());
  return bytes;
}

}  // namespace sluice::testing
