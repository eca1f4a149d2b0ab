// Moved: include sluice/ir/value.h.
#pragma once

#include "sluice/ir/value.h"
