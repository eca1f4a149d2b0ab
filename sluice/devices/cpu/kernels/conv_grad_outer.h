// conv_grad_weight as sums of outer products, with vector code of our own: every pair of pixels of
// x and dy that meets under a tap adds the product of their channels to that tap's matrix. Nothing
// is copied, and vectors run along the channels that fill them better.
#pragma once

#include <memory>

#include "sluice/devices/cpu/kernel.h"

namespace sluice::devices::cpu {

inline constexpr const char* kOuterConfig = "outer";

/// Whether it supports the op.
bool canAddOuter(const ir::OpView& op);
/// Whether it is faster than oneDNN's code.
bool likesOuter(const ir::OpView& op);
device::Choice chooseOuter(const ir::OpView& op);
std::unique_ptr<Kernel> makeOuter(const ir::OpView& op);

}  // namespace sluice::devices::cpu
