// Moved: include sluice/api/fit.h.
#pragma once

#include "sluice/api/fit.h"
