// Names with wildcards, as users write them: `*` stands for any text, including none.
#pragma once

#include <string_view>

namespace sluice {

bool matchesPattern(std::string_view name, std::string_view pattern);

}  // namespace sluice
