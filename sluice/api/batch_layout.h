// Moved: include sluice/api/batch.h.
#pragma once

#include "sluice/api/batch.h"
