// Moved: include sluice/optim/gradient_options.h.
#pragma once

#include "sluice/optim/gradient_options.h"
