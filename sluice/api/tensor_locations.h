// Moved: include sluice/api/option_groups.h.
#pragma once

#include "sluice/api/option_groups.h"
