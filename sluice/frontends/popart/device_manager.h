// Moved: include sluice/frontends/popart/session.h.
#pragma once

#include "sluice/frontends/popart/session.h"
