// A kernel table for tests of lowering: nothing of it can run, but it makes programs that have
// everything a plan can have. matmul wants its second operand in a packed form and uses scratch.
#pragma once

#include <array>

#include "sluice/device/kernel.h"

namespace sluice::program {

inline constexpr std::size_t kToyScratch = 200;

inline device::Choice chooseToyMatMul(const ir::OpView& op, const device::Tuning&) {
  device::Choice choice = device::plainChoice(op, "toy");
  choice.inputs[1] = {.kind = device::Layout::Kind::Opaque,
                      .blob = "toy",
                      .opaqueBytes = op.inputs[1].bytes() + 24};
  choice.scratchBytes = kToyScratch;
  return choice;
}

inline const device::KernelTable& toyKernels() {
  static constexpr std::array kEntries = {
      device::KernelEntry{.op = "assign", .implementation = "toy"},
      device::KernelEntry{.op = "matmul", .implementation = "toy", .choose = chooseToyMatMul},
      device::KernelEntry{.op = "reorder", .implementation = "toy"},
  };
  static const device::KernelTable kTable("toy", kEntries, {}, true);
  return kTable;
}

}  // namespace sluice::program
