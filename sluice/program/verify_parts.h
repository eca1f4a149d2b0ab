// The parts of verify(). Private to the program module.
#pragma once

#include "sluice/program/program.h"
#include "sluice/program/program_text.h"

namespace sluice::program {

/// Checks everything that concerns single records: indices, sizes, positions, counts.
void verifyStructure(const Program& program);
/// Checks that what a program keeps from step to step stays as it is. Needs a valid structure.
void verifyKept(const Program& program);
/// Checks that lanes of several devices or replicas meet: sums over replicas and barriers. Needs a
/// valid structure.
void verifyMeetings(const Program& program);
/// Checks deadlock, races and values by symbolic execution of the lanes. Needs a valid structure.
void verifyExecution(const Program& program);

/// Whether the bytes of any of their slots overlap.
bool overlap(const Buffer& a, const Buffer& b);
/// Whether the call also reads its output: an accumulating assign.
bool readsOutput(const device::KernelCall& call);

}  // namespace sluice::program
