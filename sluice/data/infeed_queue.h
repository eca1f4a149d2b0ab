// Moved: include sluice/data/queues.h.
#pragma once

#include "sluice/data/queues.h"
