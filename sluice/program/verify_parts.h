// The parts of verify(), and how its messages name things. Private to the program module.
#pragma once

#include <string>

#include "sluice/base/error.h"
#include "sluice/program/program.h"

namespace sluice::program {

/// Everything that can be said of single records: indices, sizes, places, counts.
void verifyStructure(const Program& program);
/// That lanes of several devices or replicas meet: sums over replicas and barriers. Needs a sound
/// structure.
void verifyMeetings(const Program& program);
/// Deadlock, races and values, by executing the lanes symbolically. Needs a sound structure.
void verifyExecution(const Program& program);

/// "lane compute of device 0"
std::string laneText(const Program& program, std::size_t lane);
/// "run forward of micro-batch 1 (task 2 of lane compute of device 0)"
std::string taskText(const Program& program, std::size_t lane, std::size_t task);

template <class... Args>
[[noreturn]] void broken(const Program& program,
                         fmt::format_string<Args...> format,
                         Args&&... args) {
  raise<InternalError>(
      "program '{}': {}", program.name, fmt::format(format, std::forward<Args>(args)...));
}

/// Whether the bytes of any of their slots meet.
bool overlap(const Buffer& a, const Buffer& b);
/// Whether the call also reads its output: an accumulating assign.
bool readsOutput(const device::KernelCall& call);

}  // namespace sluice::program
