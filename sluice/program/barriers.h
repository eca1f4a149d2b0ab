// Barriers keep devices without events in step. Before a device exchanges data with another device,
// the host or remote memory, all devices of a group meet: each of their compute lanes has a Barrier
// task, which waits until all others have come as far, and the exchange waits for this task.
// Nothing else changes, so results and memory are those of the Program without barriers.
#pragma once

#include "sluice/program/program.h"
#include "sluice/schedule/sync_groups.h"

namespace sluice::program {

/// Adds barriers. A run of one round on a virtual clock decides their positions.
void addBarriers(Program& program, schedule::SyncPattern pattern);

/// The devices that meet before a task of this lane; empty for kernels and barriers.
std::vector<std::int32_t> groupBefore(const Program& program,
                                      const Lane& lane,
                                      const Task& task,
                                      schedule::SyncPattern pattern);

}  // namespace sluice::program
