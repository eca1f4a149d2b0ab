// Text for terminals: colours where somebody sees them, and a line of progress for work that takes
// long. In a pipe, with NO_COLOR set (no-color.org) and on a dumb terminal there are no colours.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace sluice::cli {

enum class Style : char { Heading, Error, Faint, Blue, Yellow, Green };

/// Whether text that goes to the stream may have colours.
bool hasColours(std::FILE* stream);

/// Columns of the terminal that the stream goes to, or `otherwise`.
std::int32_t columnsOf(std::FILE* stream, std::int32_t otherwise);

/// Writes to stderr, which may be closed or full: nothing depends on it.
void tell(std::string_view text);

/// The text in the style, or as it is where there are no colours.
std::string styled(std::string_view text, Style style, std::FILE* stream);

}  // namespace sluice::cli
