// Moved: include sluice/nn/linear.h.
#pragma once

#include "sluice/nn/linear.h"
