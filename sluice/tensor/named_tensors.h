// Moved: include sluice/tensor/host_tensor.h.
#pragma once

#include "sluice/tensor/host_tensor.h"
