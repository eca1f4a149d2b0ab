// Includes all layers and the blocks that annotate them. Layers have PyTorch's parameter names,
// shapes and default initial values. They check their input and name their path in messages.
#pragma once

#include "sluice/nn/activation.h"
#include "sluice/nn/attention.h"
#include "sluice/nn/autocast.h"
#include "sluice/nn/block.h"
#include "sluice/nn/conv.h"
#include "sluice/nn/linear.h"
#include "sluice/nn/norm.h"
#include "sluice/nn/pool.h"
#include "sluice/nn/recurrent.h"

#pragma GCC visibility push(default)

#pragma GCC visibility pop
