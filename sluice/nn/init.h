// Moved: include sluice/nn/parameter.h.
#pragma once

#include "sluice/nn/parameter.h"
