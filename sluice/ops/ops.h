// All ops. One function per op appends it to the builder's graph and returns its result; gradients,
// composites and front ends are written with these functions. The op itself checks shapes and types
// and throws InvalidArgument. A file that needs one family includes only the header of that family,
// so that a new op of another family does not recompile it.
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
