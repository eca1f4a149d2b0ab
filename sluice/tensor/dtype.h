// Moved: include sluice/tensor/shape.h.
#pragma once

#include "sluice/tensor/shape.h"
