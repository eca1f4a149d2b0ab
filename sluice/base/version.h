// The version of the library.
#pragma once

#include <string_view>

#pragma GCC visibility push(default)

namespace sluice {

/// The version of the library that the program runs with, such as "0.1.0".
std::string_view version();

}  // namespace sluice

#pragma GCC visibility pop
