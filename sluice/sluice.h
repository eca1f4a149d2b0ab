// Everything a program that trains or runs a model needs.
#pragma once

#include "sluice/api/builder.h"
#include "sluice/api/devices.h"
#include "sluice/api/fit.h"
#include "sluice/api/metrics.h"
#include "sluice/api/model.h"
#include "sluice/api/options.h"
#include "sluice/base/error.h"
#include "sluice/base/philox.h"
#include "sluice/data/memory_loader.h"
#include "sluice/data/mnist.h"
#include "sluice/nn/block.h"
#include "sluice/nn/functional.h"
#include "sluice/nn/modules.h"
#include "sluice/optim/adam.h"
#include "sluice/optim/lr_schedule.h"
#include "sluice/optim/sgd.h"
