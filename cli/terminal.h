// Text for terminals: colours where somebody sees them, and a line of progress for work that takes
// long. In a pipe, with NO_COLOR set (no-color.org) and on a dumb terminal there are no colours.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace sluice::cli {

enum class Style : char { Heading, Error, Faint };

/// Whether text that goes to the stream may have colours.
bool hasColours(std::FILE* stream);

/// The text in the style, or as it is where there are no colours.
std::string styled(std::string_view text, Style style, std::FILE* stream);

}  // namespace sluice::cli
