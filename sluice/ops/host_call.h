// Moved: include sluice/ops/custom_op.h.
#pragma once

#include "sluice/ops/custom_op.h"
