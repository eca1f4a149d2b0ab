// Checks that layers and helpers share; not part of the interface.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::nn {

/// The name of a module in messages, from its path; the root's path is empty.
inline std::string moduleCalled(std::string_view path) {
  return path.empty() ? "the outermost module" : fmt::format("module '{}'", path);
}

/// Returns the extent. Throws InvalidArgument, naming the module, unless it is positive.
inline std::int64_t positive(std::int64_t extent,
                             std::string_view module,
                             std::string_view name,
                             std::string_view what) {
  if (extent <= 0) {
    raise<InvalidArgument>("{} '{}': {} must be positive, got {}", module, name, what, extent);
  }
  return extent;
}

/// Returns the share of a device's memory. Throws InvalidArgument unless it is between 0 and 1.
inline double checkedProportion(double proportion) {
  if (!(proportion >= 0 && proportion <= 1)) {
    raise<InvalidArgument>("a proportion of the available memory is between 0 and 1, got {}",
                           proportion);
  }
  return proportion;
}

}  // namespace sluice::nn
