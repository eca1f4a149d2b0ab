// Moved: include sluice/api/inputs.h.
#pragma once

#include "sluice/api/inputs.h"
