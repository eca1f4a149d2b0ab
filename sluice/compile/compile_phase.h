// The phases of a compilation, as a progress line shows them. Each consists of several stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::compiler {

/// In their order. Load comes after the compiler: it brings the Program to the devices.
enum class CompilePhase : std::uint8_t { Trace, Passes, Plan, Lower, Verify, Load };
inline constexpr std::size_t kCompilePhases = 6;
std::string_view name(CompilePhase phase);

}  // namespace sluice::compiler
