// Finds the names that a misspelt name may have been meant to be, for messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The smallest number of letters to add, remove or change to turn one text into the other. Upper
/// and lower case count as equal.
std::size_t editDistance(std::string_view a, std::string_view b);

/// Up to three names that are similar to the wanted one, the nearest first. A name is similar if at
/// most a quarter of the letters differ (for a short name, at most two), in the whole name or after
/// its last dot.
std::vector<std::string_view> nearNames(std::string_view wanted,
                                        std::span<const std::string_view> names);

/// " (did you mean 'a' or 'b'?)"; empty if no name is similar.
std::string didYouMean(std::string_view wanted, std::span<const std::string_view> names);

}  // namespace sluice
