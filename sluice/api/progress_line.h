// The line that shows the progress of an epoch, as wide as the terminal allows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/api/fit.h"

namespace sluice {

/// The width in columns of the terminal that a file descriptor refers to, 80 if it is unknown;
/// nullopt if the descriptor is not a terminal.
std::optional<std::size_t> terminalWidth(int descriptor);

/// The start of a UTF-8 line, at most this many columns wide. A character that does not fit is left
/// out entirely.
std::string_view cutTo(std::string_view text, std::size_t columns);

/// "[#####.....] 5/10 1.2s  Loss:0.25", without the bar if there is no terminal. The line stays
/// shorter than `columns`: first the bar shrinks and disappears, then the end of the line is cut.
std::string progressLine(const Progress& progress, std::optional<std::size_t> columns);

}  // namespace sluice
