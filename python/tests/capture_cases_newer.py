"""Cases for functions that not every version of torch has; see capture_cases.py."""

import torch
import torch.nn.functional as F
from capture_cases import Case, mask, normal

BATCH = normal(2, 3, 4)


def exists(name, overload="default"):
    """Whether this version of torch has the function."""
    return overload in getattr(getattr(torch.ops.aten, name, None), "overloads", list)()


def when(there, *cases):
    return list(cases) if there else []


NEWER = [
    Case("reshape_alias", lambda x: torch.ops.aten._reshape_alias(x, [6, 4], [4, 1]), BATCH),
    *when(
        exists("all", "dims"),
        Case(
            "all_dims",
            lambda a: (
                torch.ops.aten.all.dims(a, [0, 1], True),
                torch.ops.aten.any.dims(a, [0, 2]),
                torch.all(a, dim=(1, 2)),
                torch.any(a, dim=(0,), keepdim=True),
            ),
            mask(2, 3, 4),
        ),
    ),
    *when(
        exists("squeeze", "dims"),
        Case("squeeze_dims", lambda x: (torch.squeeze(x[:1, :1], (0, 1)), x[:1].squeeze((0, 2))), BATCH),
    ),
    *when(
        exists("rms_norm"),
        Case(
            "rms_norm",
            lambda x, w: (F.rms_norm(x, (4,)), F.rms_norm(x, (4,), w, 1e-3)),
            BATCH,
            normal(4),
        ),
    ),
]
