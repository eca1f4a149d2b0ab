// Checks that the layers share; not part of the interface.
#pragma once

#include <cstdint>
#include <string_view>

#include "sluice/base/error.h"

namespace sluice::nn {

/// The extent, when it is a size a layer can have; else InvalidArgument naming the module.
inline std::int64_t positive(std::int64_t extent,
                             std::string_view module,
                             std::string_view name,
                             std::string_view what) {
  if (extent <= 0) {
    raise<InvalidArgument>("{} '{}': {} must be positive, got {}", module, name, what, extent);
  }
  return extent;
}

}  // namespace sluice::nn
