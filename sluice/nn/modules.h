// Includes all layers and the blocks that annotate them. Layers have PyTorch's parameter names,
// shapes and default initial values. They check their input and name their path in messages.
#pragma once

#include "sluice/nn/block.h"
#include "sluice/nn/layers.h"
#include "sluice/nn/norm.h"
#include "sluice/nn/sequence.h"
