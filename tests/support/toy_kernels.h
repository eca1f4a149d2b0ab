// A kernel table for tests of lowering. Its kernels cannot run, but they make programs with
// everything that a plan can have. matmul wants its second operand in a packed form and uses
// scratch.
#pragma once

#include <array>
#include <vector>

#include "sluice/program/lower.h"

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
      device::KernelEntry{
          .op = device::kAnyOp,
          .implementation = "toy",
          .supports = [](const ir::OpView& op) { return op.def.reference != nullptr; }},
  };
  static const device::KernelTable kTable("toy", {kEntries.begin(), kEntries.end()}, {});
  return kTable;
}

/// The targets of any number of devices with this table.
inline std::vector<Target> toyTargets() {
  return {{.kernels = &toyKernels()}};
}

}  // namespace sluice::program
