// Batch: what a DataLoader returns for one call of a model.
#pragma once

#include <optional>

#include "sluice/api/batch_layout.h"
#include "sluice/data/batch.h"

namespace sluice {

struct Batch : data::Batch {
  std::optional<CallShape> shape = {};  ///< set: the call's counts differ from the options
};

}  // namespace sluice
