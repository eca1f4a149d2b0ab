// The parts of verify(), and how its messages name things. Private to the program module.
#pragma once

#include <string>

#include "sluice/base/error.h"
#include "sluice/program/program.h"

namespace sluice::program {

/// Checks everything that concerns single records: indices, sizes, positions, counts.
void verifyStructure(const Program& program);
/// Checks that lanes of several devices or replicas meet: sums over replicas and barriers. Needs a
/// valid structure.
void verifyMeetings(const Program& program);
/// Checks deadlock, races and values by symbolic execution of the lanes. Needs a valid structure.
void verifyExecution(const Program& program);

/// Returns a text such as "lane compute of device 0".
std::string laneText(const Program& program, std::size_t lane);
/// Returns a text such as "run forward of micro-batch 1 (task 2 of lane compute of device 0)".
std::string taskText(const Program& program, std::size_t lane, std::size_t task);

template <class... Args>
[[noreturn]] void broken(const Program& program,
                         fmt::format_string<Args...> format,
                         Args&&... args) {
  raise<InternalError>(
      "program '{}': {}", program.name, fmt::format(format, std::forward<Args>(args)...));
}

/// Whether the bytes of any of their slots overlap.
bool overlap(const Buffer& a, const Buffer& b);
/// Whether the call also reads its output: an accumulating assign.
bool readsOutput(const device::KernelCall& call);

}  // namespace sluice::program
