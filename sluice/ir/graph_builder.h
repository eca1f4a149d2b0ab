// Moved: include sluice/ir/graph.h.
#pragma once

#include "sluice/ir/graph.h"
