// Moved: include sluice/nn/sequence.h.
#pragma once

#include "sluice/nn/sequence.h"
