// Moved: include sluice/frontends/popart/builder_op_options.h.
#pragma once

#include "sluice/frontends/popart/builder_op_options.h"
