// Moved: include sluice/ops/op_options.h.
#pragma once

#include "sluice/ops/op_options.h"
