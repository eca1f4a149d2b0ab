// Moved: include sluice/nn/helpers.h.
#pragma once

#include "sluice/nn/helpers.h"
