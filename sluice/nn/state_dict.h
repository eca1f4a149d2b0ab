// Moved: include sluice/nn/module.h.
#pragma once

#include "sluice/nn/module.h"
