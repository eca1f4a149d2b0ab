// What the tasks of a Program cost on devices whose time is modelled: the step from a CostModel,
// which knows kernels and links, to SimCosts, which the simulator reads. A pure function.
#pragma once

#include <cstdint>
#include <span>

#include "sluice/device/cost_model.h"
#include "sluice/program/program.h"
#include "sluice/runtime/simulator.h"

namespace sluice::runtime {

/// `models` has an entry for each device of the program; the last one stands for all further
/// devices, and the first one knows the links and the clock. Throws InvalidArgument if there is no
/// model, if the clocks differ, or if replicas and devices cannot be dealt out to the processes of
/// the first model.
SimCosts costsOf(const program::Program& program,
                 std::span<const device::CostModel* const> models,
                 std::int32_t replicas = 1);

}  // namespace sluice::runtime
