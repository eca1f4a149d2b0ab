// Moved: include sluice/tensor/structure.h.
#pragma once

#include "sluice/tensor/structure.h"
