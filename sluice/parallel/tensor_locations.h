// Moved: include sluice/parallel/strategy.h.
#pragma once

#include "sluice/parallel/strategy.h"
