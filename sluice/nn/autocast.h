// Moved: include sluice/nn/block.h.
#pragma once

#include "sluice/nn/block.h"
