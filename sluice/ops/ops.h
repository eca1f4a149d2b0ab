// All ops: one function per op appends it to the builder's graph and returns its result.
// Gradients, composites and front ends are written with these. Shapes and types are checked by the
// op itself, which throws InvalidArgument. A file that needs one family includes that header, so
// that a new op costs the others no compilation.
#pragma once

#include "sluice/ops/activation_ops.h"  // IWYU pragma: export
#include "sluice/ops/arithmetic_ops.h"  // IWYU pragma: export
#include "sluice/ops/image_ops.h"       // IWYU pragma: export
#include "sluice/ops/indexing_ops.h"    // IWYU pragma: export
#include "sluice/ops/linear_ops.h"      // IWYU pragma: export
#include "sluice/ops/logic_ops.h"       // IWYU pragma: export
#include "sluice/ops/loss_ops.h"        // IWYU pragma: export
#include "sluice/ops/norm_ops.h"        // IWYU pragma: export
#include "sluice/ops/random_ops.h"      // IWYU pragma: export
#include "sluice/ops/reduction_ops.h"   // IWYU pragma: export
#include "sluice/ops/shape_ops.h"       // IWYU pragma: export
#include "sluice/ops/window_ops.h"      // IWYU pragma: export
