// What `sluice inspect` shows of an executable.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::cli {

/// Whether the file begins as executables do. Throws FileError.
bool isExecutable(const std::string& path);

enum class ExecutableView : std::uint8_t { Summary, Graph, Program };
/// Prints it. Throws FileError.
void inspectExecutable(const std::string& path, ExecutableView view);

/// The names of its outputs.
std::vector<std::string> outputsOfExecutable(const std::string& path);

}  // namespace sluice::cli
