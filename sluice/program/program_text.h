// How messages about a Program name its lanes and tasks.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/program/program.h"

namespace sluice::program {

/// Returns a name such as "compute0", "exchange0>1", "send0>1" or "fetch0.1", as the text of the
/// Program has it.
std::string laneName(const Lane& lane);
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

}  // namespace sluice::program
