// Whether a callback is the bar that progressBar makes: fit shows one bar, not two.
#pragma once

#include <memory>

#include "sluice/api/fit.h"

namespace sluice {

bool isProgressBar(const std::shared_ptr<Callback>& callback);

}  // namespace sluice
