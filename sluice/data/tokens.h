// Moved: include sluice/data/files.h.
#pragma once

#include "sluice/data/files.h"
