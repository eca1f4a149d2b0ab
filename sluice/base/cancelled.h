// Moved: include sluice/base/error.h.
#pragma once

#include "sluice/base/error.h"
