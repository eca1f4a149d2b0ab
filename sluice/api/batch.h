// Batch: what a DataLoader returns for one call of a model.
#pragma once

#include <optional>

#include "sluice/api/batch_layout.h"
#include "sluice/data/batch.h"

#pragma GCC visibility push(default)

namespace sluice {

struct Batch : data::Batch {
  std::optional<CallShape> shape = {};  ///< set: the call's counts differ from the options
};

}  // namespace sluice

#pragma GCC visibility pop
