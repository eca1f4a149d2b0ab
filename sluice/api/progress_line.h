// The line that shows how far an epoch is, as wide as the terminal allows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/api/fit.h"

namespace sluice {

/// Columns of the terminal that a file descriptor is; 80 if it does not tell. Not set: no terminal.
std::optional<std::size_t> terminalWidth(int descriptor);

/// At most this many columns of a line of UTF-8; a character that does not fit is left out whole.
std::string_view cutTo(std::string_view text, std::size_t columns);

/// "[#####.....] 5/10 1.2s  Loss:0.25", without the bar where there is no terminal. The bar shrinks
/// and goes, then the end is cut, so that the line stays below `columns`.
std::string progressLine(const Progress& progress, std::optional<std::size_t> columns);

}  // namespace sluice
