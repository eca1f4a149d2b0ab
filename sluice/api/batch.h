// What a DataLoader gives for one call of a model.
#pragma once

#include <optional>

#include "sluice/api/batch_layout.h"
#include "sluice/data/batch.h"

namespace sluice {

struct Batch : data::Batch {
  std::optional<CallShape> shape = {};  ///< set: not of the options' size
};

}  // namespace sluice
