// The parts of the page, from the files in page/: the build embeds them. Private to the module.
#pragma once

#include <string_view>

namespace sluice::profile {

extern const std::string_view kPageHtml;
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace sluice::profile
