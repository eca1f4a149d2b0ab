// Moved: include sluice/api/checkpoint.h.
#pragma once

#include "sluice/api/checkpoint.h"
