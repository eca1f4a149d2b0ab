// Moved: include sluice/nn/norm.h.
#pragma once

#include "sluice/nn/norm.h"
