// Moved: include sluice/nn/functional.h.
#pragma once

#include "sluice/nn/functional.h"
