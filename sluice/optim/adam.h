// Moved: include sluice/optim/optimizers.h.
#pragma once

#include "sluice/optim/optimizers.h"
