// Moved: include sluice/data/dataset.h.
#pragma once

#include "sluice/data/dataset.h"
