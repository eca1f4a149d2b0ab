// Moved: include sluice/frontends/tensorflow/loops.h.
#pragma once

#include "sluice/frontends/tensorflow/loops.h"
