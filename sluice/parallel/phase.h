// Moved: include sluice/parallel/stage.h.
#pragma once

#include "sluice/parallel/stage.h"
